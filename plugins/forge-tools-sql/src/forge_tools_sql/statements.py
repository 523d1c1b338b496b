"""Statements as a parser reads them: their kind, their tables, and why they do more than read."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import yaml

if TYPE_CHECKING:
    from sqlglot import exp

Kind = Literal["read", "write", "ddl", "other"]
MAX_LENGTH = 50_000
"""The most characters of a text with statements."""
_LEADING = re.compile(r"\s+|--[^\n]*(\n|$)|/\*((?!/\*)[\s\S])*?\*/")
_FIRST_WORD = re.compile(r"[a-zA-Z]+")
_WRITES = {
    "Insert": "insert",
    "Update": "update",
    "Delete": "delete",
    "Merge": "merge",
    "TruncateTable": "truncate",
}
_DDL = {"Create": "create", "Alter": "alter", "Drop": "drop", "Comment": "alter"}
_TRIABLE = frozenset({"TABLE", "VIEW", "INDEX", "SCHEMA", "SEQUENCE", "TRIGGER"})
"""Kinds of objects whose statements a rollback takes back in every database here."""
_QUERIES = frozenset({"select", "with", "values", "table", "from"})
"""First words of queries."""
_CATALOGS = frozenset({"pg_catalog", "information_schema", "pg_toast"})


@dataclass(frozen=True)
class Statement:
    """One statement: what it does as far as the parser knows."""

    text: str
    """The statement without leading comments."""
    kind: Kind
    word: str
    """The word that rules name, such as ``delete``; ``other`` if it is not understood."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why it is not known to only read, or to be undone by a rollback."""
    tree: Any = None

    @property
    def tables(self) -> tuple[str, ...]:
        """All tables, those that it writes first."""
        return tuple(dict.fromkeys((*self.writes, *self.reads)))

    @property
    def can_be_tried(self) -> bool:
        """True if a rollback takes back everything that it does."""
        return self.kind != "other" and not self.doubts


def read_statements(sql: str, dialect: str, harmless: Iterable[str] = ()) -> tuple[Statement, ...]:
    """Read the statements of a text; ``harmless`` are names of further functions that only compute.

    A text that cannot be read is one statement of the kind ``other``.
    """
    from sqlglot import parse
    from sqlglot.errors import SqlglotError

    text = without_leading_comments(sql)
    if len(sql) > MAX_LENGTH:
        return (_unread(text, f"it is longer than {MAX_LENGTH:,} characters"),)
    # sqlglot writes warnings about statements that it does not support.
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    try:
        pieces = _split(text, dialect)
        parsed = [tree for tree in parse(text, dialect=dialect) if tree is not None]
    except (SqlglotError, RecursionError, ValueError, TypeError, KeyError, IndexError):
        return (_unread(text, "it cannot be read"),)
    if len(pieces) != len(parsed):
        return (_unread(text, "it cannot be taken apart"),)
    known = frozenset(name.lower() for name in harmless) | harmless_functions(dialect)
    try:
        return tuple(
            _statement(piece, tree, known) for piece, tree in zip(pieces, parsed, strict=True)
        )
    except RecursionError:
        return (_unread(text, "it is nested too deeply"),)


def without_leading_comments(sql: str) -> str:
    """Return a text from its first word on, so that a comment cannot hide another first word."""
    at = 0
    while found := _LEADING.match(sql, at):
        at = found.end()
    return sql[at:].strip()


def first_word(text: str) -> str:
    """Return the first word of a statement in lower case; empty if it begins with another sign."""
    found = _FIRST_WORD.match(text)
    return found[0].lower() if found else ""


@cache
def harmless_functions(dialect: str) -> frozenset[str]:
    """Return the names of functions that only compute."""
    return frozenset(_functions().get(dialect, ()))


@cache
def _functions() -> dict[str, list[str]]:
    found: dict[str, list[str]] = yaml.safe_load(
        (files("forge_tools_sql") / "functions.yaml").read_text("utf-8")
    )
    return found


def _split(text: str, dialect: str) -> list[str]:
    """Split a text at the semicolons that are tokens."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.tokens import TokenType

    pieces: list[str] = []
    start = 0
    ends = [
        token.start
        for token in Dialect.get_or_raise(dialect).tokenize(text)
        if token.token_type is TokenType.SEMICOLON
    ]
    for end in [*ends, len(text)]:
        if piece := without_leading_comments(text[start:end]):
            pieces.append(piece)
        start = end + 1
    return pieces


def _unread(text: str, why: str) -> Statement:
    return Statement(text, "other", "other", doubts=(why,))


def _statement(text: str, tree: exp.Expression, known: frozenset[str]) -> Statement:
    from sqlglot import exp

    written = tuple(dict.fromkeys(_written(tree)))
    reads = tuple(dict.fromkeys(_read(tree, written)))
    doubts = tuple(dict.fromkeys(_doubts(tree, known)))
    name = type(tree).__name__
    word = first_word(text)
    if name in _WRITES:
        return Statement(text, "write", _WRITES[name], reads, written, doubts, tree)
    if name in _DDL:
        kind = str(tree.args.get("kind") or "").upper()
        if name != "Comment" and kind not in _TRIABLE:
            doubts = (*doubts, f"{word} {kind.lower()}".strip() + " may not be undone")
        if tree.args.get("concurrently"):
            doubts = (*doubts, "it runs outside of transactions")
        return Statement(text, "ddl", _DDL[name], reads, written, doubts, tree)
    if isinstance(tree, exp.Grant | exp.Revoke):
        return Statement(text, "ddl", "grant", reads, written, doubts, tree)
    if not isinstance(tree, exp.Query | exp.Values) or word not in _QUERIES:
        why = (f"{word or 'it'} is not understood", *doubts)
        return Statement(text, "other", "other", reads, written, why, tree)
    inner = [each for each in tree.walk() if type(each).__name__ in _WRITES]
    if inner:
        word = _WRITES[type(inner[0]).__name__]
        return Statement(text, "write", word, reads, written, doubts, tree)
    if tree.find(exp.Into):
        return Statement(text, "ddl", "create", reads, written, doubts, tree)
    return Statement(text, "read", "select", reads, (), doubts, tree)


def _doubts(tree: exp.Expression, known: frozenset[str]) -> Iterator[str]:
    """Yield what a statement does beyond its words, such as functions and locks."""
    from sqlglot import exp

    never = frozenset(_functions()["never"])
    unread = (exp.Command, exp.Copy, exp.Attach, exp.Detach, exp.Pragma, exp.Set)
    for node in tree.walk():
        if isinstance(node, unread):
            yield f"{type(node).__name__.lower()} is not understood"
        elif isinstance(node, exp.Lock):
            yield "it locks rows"
        elif isinstance(node, exp.Func) and _is_qualified(node):
            yield f"the function {node.parent.sql()} is not known"
        elif isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
            if node.name.lower() not in known:
                yield f"the function {node.name.lower()} is not known"
        elif isinstance(node, exp.Func) and type(node).__name__.lower() in never:
            yield f"the function {node.sql_name().lower()} reaches beyond the database"
        elif isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier | exp.Func):
            yield "it reads from something that is not a table"
        elif isinstance(node, exp.Table) and re.search(r"[./\\:*]", node.name):
            yield f"'{node.name}' may be a file"
        elif isinstance(node, exp.Parameter | exp.SessionParameter):
            yield "it uses variables"


def _is_qualified(node: exp.Func) -> bool:
    """Return True for a function of a named schema, which may be anybody's."""
    from sqlglot import exp

    dot = node.parent
    is_name = isinstance(dot, exp.Dot) and dot.expression is node
    return is_name and dot.this.name.lower() != "pg_catalog"


def _written(tree: exp.Expression) -> Iterator[str]:
    """Yield the tables that a statement changes, also in its CTEs."""
    from sqlglot import exp

    for node in tree.walk():
        if isinstance(node, exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Into):
            yield from _targets(node.this)
            for each in node.args.get("tables") or ():
                yield from _targets(each)
        elif isinstance(node, exp.TruncateTable):
            for each in node.expressions:
                yield from _targets(each)
        elif isinstance(node, exp.Create | exp.Drop | exp.Alter | exp.Comment):
            yield from _targets(node.this)
            if isinstance(node, exp.Create) and isinstance(node.this, exp.Index):
                yield from _targets(node.this.args.get("table"))


def _targets(node: Any) -> Iterator[str]:
    from sqlglot import exp

    if isinstance(node, exp.Schema):
        node = node.this
    if isinstance(node, exp.Table) and node.name:
        yield table_name(node)


def table_name(table: exp.Table) -> str:
    """Return the name of a table in lower case, with its schema if the statement names one."""
    return ".".join(part for part in (table.db, table.name) if part).lower()


def _read(tree: exp.Expression, written: tuple[str, ...]) -> Iterator[str]:
    from sqlglot import exp

    # Names of CTEs stay, because a CTE may have the name of the table that it reads.
    for table in tree.find_all(exp.Table):
        name = table_name(table)
        if name and name not in written:
            yield name


def is_catalog(table: str) -> bool:
    """Return True for a table of the database's own catalog."""
    schema, _, name = table.rpartition(".")
    return schema in _CATALOGS or name.startswith(("pg_", "sqlite_", "duckdb_"))
