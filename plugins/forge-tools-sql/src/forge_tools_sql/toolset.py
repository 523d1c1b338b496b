"""The toolset ``sql``: queries that only read, and changes that are tried first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import Field

from forge_cli import (
    Args,
    Preview,
    Text,
    ToolContext,
    ToolError,
    Toolset,
    Verdict,
    hookimpl,
    tool,
)
from forge_cli.errors import WorkerError
from forge_cli.hooks import Tried
from forge_cli.results import DisplayHints, ResultValue, Table
from forge_tools_sql.addresses import expand, has_literal_password, open_database
from forge_tools_sql.changes import Changes, Hidden, Rows, show, summary, varying_columns
from forge_tools_sql.config import SqlConfig
from forge_tools_sql.database import Database, Untriable
from forge_tools_sql.hiding import hidden_columns, reads_hidden, touches_hidden, without_hidden
from forge_tools_sql.judging import judge, met_by_trial, words_of
from forge_tools_sql.statements import Statement, read_statements

Sql = Annotated[
    str, Field(min_length=1, description="The statement, in the dialect of the database")
]
ConnectionName = Annotated[
    str | None, Field(description="The name of the database; needed if there are several")
]
LIMIT = 600.0
"""Seconds for a call; each statement has the limit of the worker."""


class SqlToolset(Toolset[SqlConfig]):
    """Tools for databases that the worker names."""

    name = "sql"

    async def __aenter__(self) -> Self:
        # Nothing is connected yet; a wrong address is an error of the worker, not of a call.
        for name in self.config.connections:
            self._databases[name] = self._open(name)
        return await super().__aenter__()

    def instructions(self) -> str:
        described = ", ".join(f"{name} ({each.dialect})" for name, each in self._databases.items())
        return (
            f"Databases: {described}. Use `query` for one SELECT and `execute` for changes; "
            "transactions are made for you."
        )

    @cached_property
    def _databases(self) -> dict[str, Database]:
        return {}

    def _open(self, name: str) -> Database:
        dsn = self.config.connections[name].dsn
        where = self.config.where("connections", name, "dsn")
        if has_literal_password(dsn):
            raise WorkerError(
                where,
                f"toolsets.sql.connections.{name}: the address contains a password",
                hint="keep the address in an environment variable: dsn: ${DATABASE_URL}",
            )
        try:
            address = expand(dsn)
        except KeyError as missing:
            raise WorkerError(
                where,
                f"toolsets.sql.connections.{name}: the variable {missing.args[0]} is not set",
                hint=f"export {missing.args[0]}=... before you run the worker",
            ) from None
        try:
            return open_database(
                address, self.env.workspace, self.config.timeout, self.config.changes
            )
        except ValueError as problem:
            raise WorkerError(
                where, f"toolsets.sql.connections.{name}: not an address", hint=str(problem)
            ) from None

    @cached_property
    def _hidden(self) -> Hidden:
        return hidden_columns(self.config.hide)

    def _database(self, name: str | None) -> tuple[str, Database]:
        if name is None and len(self._databases) == 1:
            [name] = self._databases
        if name is None or name not in self._databases:
            known = ", ".join(self._databases)
            raise ToolError(f"name one of the databases as connection: {known}")
        return name, self._databases[name]

    def _read(self, args: Mapping[str, Any]) -> tuple[str, Database, Sequence[Statement]]:
        name, database = self._database(args.get("connection"))
        statements = read_statements(args["sql"], database.dialect, self.config.functions)
        if not statements:
            raise ToolError("there is no statement")
        return name, database, statements

    def judge_query(self, args: Args) -> Verdict:
        """Return the verdict on a query; refuse what `execute` is for."""
        name, _, statements = self._read(args)
        if len(statements) > 1:
            raise ToolError("query takes one statement; use execute for several")
        if statements[0].kind in ("write", "ddl"):
            raise ToolError(f"query only reads, and this is a {statements[0].word}; use execute")
        return judge(statements, self.config, name)

    def judge_statements(self, args: Args) -> Verdict:
        """Return the verdict on statements."""
        name, _, statements = self._read(args)
        return judge(statements, self.config, name)

    @tool(needs_approval="judge_query", read_only=True, timeout=LIMIT)
    def query(self, sql: Sql, connection: ConnectionName = None) -> Table:
        """Return the first rows of one SELECT.

        It runs in a read-only transaction.
        """
        _, database, [statement] = self._read({"sql": sql, "connection": connection})
        self._check_shown(database, statement)
        text = self._without_hidden(database, statement)
        rows = database.read(text, self.config.rows, self.config.hide)
        return self._table(rows)

    @tool(
        needs_approval="judge_statements",
        preview="try_statements",
        apply="apply_statements",
        effects=["read", "write"],
        timeout=LIMIT,
    )
    def execute(self, sql: Sql, connection: ConnectionName = None) -> ResultValue:
        """Execute statements that change rows or tables, in one transaction."""
        args = {"sql": sql, "connection": connection}
        name, database, statements = self._read(args)
        self._check_changes(database, statements)
        if any(True for _ in words_of(statements)):
            return self._done(database.run(sql), counted=False)
        texts = [each.text for each in statements]
        try:
            return self._done(database.change(texts, self._check_blocked(name)))
        except Untriable:
            # The question has said that it is not tried.
            return self._done(database.run(sql), counted=False)

    def try_statements(self, args: Args) -> Tried | Preview:
        """Execute statements and take them back; show what they changed."""
        name, database, statements = self._read(args)
        self._check_changes(database, statements)
        if why := next(words_of(statements), ""):
            return _untried(why)
        texts = [each.text for each in statements]
        began = datetime.now(UTC)
        try:
            first = database.change(texts, None)
            # A second time, to find times, random values and numbers of sequences.
            again = database.change(texts, None)
        except Untriable as problem:
            return _untried(str(problem))
        varying = varying_columns(first, again, began, datetime.now(UTC))
        shown = Changes(first.tables, first.objects, first.returned, varying)
        return Tried(
            Text(show(shown, self._hidden), DisplayHints(language="diff")),
            shown.compared(varying),
            recap=summary(shown),
            blocked=met_by_trial(first.words(), self.config, name),
        )

    def apply_statements(self, args: Args, context: ToolContext, tried: Tried) -> ResultValue:
        """Execute statements, and commit if they change what was shown."""
        name, database, statements = self._read(args)
        varying = [(table, column) for table, column in tried.changes.get("varying", ())]
        check_blocked = self._check_blocked(name)

        def check(changes: Changes) -> None:
            check_blocked(changes)
            tried.require_same(changes.compared(varying))

        return self._done(database.change([each.text for each in statements], check))

    @tool(needs_approval=False, read_only=True, timeout=LIMIT)
    def tables(self, connection: ConnectionName = None) -> Table:
        """List the tables and views of a database."""
        return self._table(self._database(connection)[1].tables())

    @tool(needs_approval=False, read_only=True, timeout=LIMIT)
    def describe(
        self,
        table: Annotated[
            str, Field(min_length=1, description="The table, with its schema if needed")
        ],
        connection: ConnectionName = None,
    ) -> Table:
        """List the columns of a table."""
        found = self._database(connection)[1].columns(table)
        if not found.rows:
            raise ToolError(f"there is no table {table}; `tables` lists them")
        return self._table(found)

    @tool(needs_approval="judge_explain", read_only=True, timeout=LIMIT)
    def explain(self, sql: Sql, connection: ConnectionName = None) -> Table:
        """Return the plan of one statement, without executing it."""
        _, database, [statement] = self._read({"sql": sql, "connection": connection})
        self._check_shown(database, statement)
        return self._table(database.explain(statement.text))

    def judge_explain(self, args: Args) -> Verdict:
        """Return the verdict on the plan of a statement, which names tables but reads no rows."""
        name, _, statements = self._read(args)
        if len(statements) > 1:
            raise ToolError("explain takes one statement")
        [statement] = statements
        if statement.kind == "other":
            raise ToolError(f"explain takes a statement that can be read: {statement.doubts[0]}")
        seen = Statement(
            statement.text, "read", "select", statement.tables, (), statement.doubts, statement.tree
        )
        return judge([seen], self.config, name)

    def _check_shown(self, database: Database, statement: Statement) -> None:
        """Raise ToolError for a query that could show hidden columns."""
        if not self._hidden:
            return
        if statement.kind == "other":
            raise ToolError("it cannot be read, and some columns are hidden; write a plain SELECT")
        # A function can read any table, such as query_to_xml.
        if doubt := next(iter(statement.doubts), ""):
            raise ToolError(f"{doubt}, and some columns are hidden; `functions` lists known ones")
        # SQLite hides columns of views itself.
        if database.dialect == "sqlite" and statement.kind == "read":
            return
        if why := touches_hidden(statement, self._hidden, database.views(), database.dialect):
            raise ToolError(f"{why}, which are never shown")

    def _check_changes(self, database: Database, statements: Sequence[Statement]) -> None:
        """Raise ToolError for statements that read hidden columns, or end the transaction."""
        for statement in statements:
            if not self._hidden:
                return
            if statement.kind == "other":
                raise ToolError(
                    "it cannot be read, and some columns are hidden; write it in another way"
                )
            self._check_shown(database, statement)
            if why := reads_hidden(statement, self._hidden):
                raise ToolError(f"it reads {why}; such columns can only be set")

    def _without_hidden(self, database: Database, statement: Statement) -> str:
        # SQLite hides columns itself, also those of views.
        if not self._hidden or database.dialect == "sqlite":
            return statement.text
        return without_hidden(statement, self._hidden, database.columns, database.dialect)

    def _check_blocked(self, name: str) -> Callable[[Changes], None]:
        def check(changes: Changes) -> None:
            if verdict := met_by_trial(changes.words(), self.config, name):
                raise ToolError(
                    f"{verdict.reason}, which {verdict.rule} blocks; nothing was changed"
                )

        return check

    def _table(self, rows: Rows) -> Table:
        table = Table.of(rows.columns, rows.rows)
        if not rows.more:
            return table
        said = f"the first {len(rows.rows)} rows; use LIMIT and OFFSET, or count(*), for the others"
        return Table(table.columns, table.rows, more=True, summary=said)

    def _done(self, changes: Changes, *, counted: bool = True) -> ResultValue:
        said = summary(changes) if counted else "executed"
        if changes.returned is None or not changes.returned.columns:
            return Text(said)
        table = self._table(changes.returned)
        return Table(table.columns, table.rows, more=table.more, summary=said)


def _untried(why: str) -> Preview:
    return Preview(
        Text(f"not tried: {why}\na yes executes it for real, without a trial"), once=True
    )


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [SqlToolset]
