"""Columns that are never shown: queries read their tables without them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forge_cli import ToolError
from forge_tools_sql.changes import Hidden, Rows
from forge_tools_sql.statements import Statement, is_catalog, read_statements

ColumnsOf = Callable[[str], Rows]
_STATISTICS = re.compile(r"(^|\.)(pg_stats\w*|pg_statistic\w*|sqlite_stat\d)$")
"""Tables of a catalog that contain samples of every column."""


def hidden_columns(names: Sequence[str]) -> Hidden:
    """Return the hidden columns by table."""
    found: dict[str, frozenset[str]] = {}
    for name in names:
        table, _, column = name.lower().partition(".")
        found[table] = found.get(table, frozenset()) | {column}
    return found


def touches_hidden(
    statement: Statement, hidden: Hidden, views: Mapping[str, str], dialect: str
) -> str:
    """Return why a statement could show a hidden column in a way that cannot be prevented."""
    if not hidden:
        return ""
    for table in statement.tables:
        name = table.rpartition(".")[2]
        if _STATISTICS.search(table):
            return f"{table} has samples of hidden columns"
        if name in views and _reads_hidden(name, hidden, views, dialect, ()):
            return f"the view {name} reads a table with hidden columns"
    return ""


def _reads_hidden(
    view: str, hidden: Hidden, views: Mapping[str, str], dialect: str, above: tuple[str, ...]
) -> bool:
    if view in above:
        return False
    for statement in read_statements(views[view], dialect):
        if statement.kind == "other":
            return True
        for table in statement.tables:
            name = table.rpartition(".")[2]
            if name in hidden:
                return True
            if name in views and _reads_hidden(name, hidden, views, dialect, (*above, view)):
                return True
    return False


def without_hidden(
    statement: Statement, hidden: Hidden, columns_of: ColumnsOf, dialect: str
) -> str:
    """Return a query that reads each table with hidden columns through one without them."""
    from sqlglot import exp, parse_one

    if not any(table.rpartition(".")[2] in hidden for table in statement.reads):
        return statement.text
    tree = statement.tree.copy()
    for table in list(tree.find_all(exp.Table)):
        name = table.name.lower()
        if name not in hidden or is_catalog(table.name.lower()):
            continue
        source = table.copy()
        alias = source.args.pop("alias", None)
        for part in ("joins", "laterals", "pivots", "sample"):
            source.args.pop(part, None)
        kept = [
            str(row[0])
            for row in columns_of(source.sql(dialect=dialect)).rows
            if str(row[0]).lower() not in hidden[name]
        ]
        if not kept:
            raise ToolError(f"every column of {name} is hidden")
        listed = ", ".join(exp.to_identifier(column, quoted=True).sql(dialect) for column in kept)
        inner = parse_one(f"select {listed} from {source.sql(dialect=dialect)}", dialect=dialect)
        named = alias or exp.TableAlias(this=exp.to_identifier(table.name))
        replaced = exp.Subquery(this=inner, alias=named)
        for part in ("joins", "laterals", "pivots"):
            if table.args.get(part):
                replaced.set(part, table.args[part])
        table.replace(replaced)
    return str(tree.sql(dialect=dialect))


def reads_hidden(statement: Statement, hidden: Hidden) -> str:
    """Return why a statement that changes something would also read a hidden column; or nothing.

    Setting a hidden column is no reading.
    """
    from sqlglot import exp

    affected = {table.rpartition(".")[2] for table in statement.tables} & hidden.keys()
    if not affected:
        return ""
    if statement.tree is None:
        return "a table with hidden columns"
    tree: Any = statement.tree
    columns = frozenset().union(*(hidden[name] for name in affected))
    if {table.rpartition(".")[2] for table in statement.reads} & hidden.keys():
        return f"{', '.join(sorted(affected))}, which has hidden columns"
    if tree.find(exp.Returning) and tree.find(exp.Star):
        return "all columns, of which some are hidden"
    names = {table.alias_or_name.lower() for table in tree.find_all(exp.Table)} & affected
    names |= {table.alias.lower() for table in tree.find_all(exp.Table) if table.alias}
    for column in tree.find_all(exp.Column):
        is_target = isinstance(column.parent, exp.EQ) and isinstance(
            column.parent.parent, exp.Update
        )
        if is_target and column.parent.this is column:
            continue
        if column.name.lower() in columns or column.name.lower() in names:
            return f"the hidden column {column.name}"
    return ""
