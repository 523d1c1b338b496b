"""Databases: what the tools need of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from forge_cli import ToolError
from forge_tools_sql.changes import Changes, Check, Rows


class Database(Protocol):
    """A database; each method opens a connection of its own, and closes it."""

    @property
    def dialect(self) -> str:
        """The name of its dialect for sqlglot."""

    def read(self, sql: str, limit: int, hidden: Sequence[str] = ()) -> Rows:
        """Return the first rows of one statement, in a transaction that cannot write."""

    def tables(self) -> Rows:
        """Return the name and kind of each table and view."""

    def columns(self, table: str) -> Rows:
        """Return name, type, nullability, default and key of each column of a table."""

    def views(self) -> Mapping[str, str]:
        """Return the definition of each view."""

    def explain(self, sql: str) -> Rows:
        """Return the plan of one statement, without executing it."""

    def change(self, statements: Sequence[str], check: Check | None) -> Changes:
        """Execute statements in a transaction, and return what they changed.

        With ``check``, which gets the changes, the transaction is committed unless it raises;
        without, it is rolled back.
        """

    def run(self, sql: str) -> Changes:
        """Execute statements that cannot be tried, as they are."""


class Unreachable(ToolError):
    """A database that cannot be used, without its address."""


class Untriable(ToolError):
    """Statements that this database cannot try, although they may be executed."""
