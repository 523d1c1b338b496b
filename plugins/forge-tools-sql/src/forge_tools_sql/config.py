"""The section ``sql`` of a worker file: connections, approvals, rules and limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from forge_cli import Approval, Config, ToolsetConfig

Word = Literal[
    "select",
    "insert",
    "update",
    "delete",
    "merge",
    "truncate",
    "create",
    "alter",
    "drop",
    "grant",
    "other",
]


class Connection(Config):
    """A database that the worker may use."""

    dsn: str
    """Its address; ``${VAR}`` is a variable of forge's environment."""


class Rule(Config):
    """An approval for statements of a kind, or for those that touch a table."""

    statement: Word | None = None
    """The first word of the statement; ``other`` is one that is not understood."""
    table: str | None = None
    """A table that it reads or writes; ``*`` matches any text."""
    connection: str | None = None
    """The name of the connection."""
    approval: Approval


class SqlConfig(ToolsetConfig):
    """Settings such as ``sql: {connections: {shop: {dsn: "sqlite:shop.db"}}}``."""

    connections: dict[str, Connection] = Field(default_factory=dict)
    read: Approval = Approval.PRE_APPROVED
    """One statement that only reads."""
    write: Approval = Approval.ASK
    """Statements that change rows."""
    ddl: Approval = Approval.ASK
    """Statements that change tables and other objects."""
    rules: list[Rule] = Field(default_factory=list)
    """Approvals by statement and table; the strictest rule that matches counts."""
    hide: list[str] = Field(default_factory=list)
    """Columns that are never shown, such as ``users.password``."""
    functions: list[str] = Field(default_factory=list)
    """Names of functions of the database that only compute, or change only what can be undone."""
    rows: Annotated[int, Field(ge=1, le=10_000)] = 200
    """The most rows of a result."""
    timeout: Annotated[float, Field(gt=0, le=600)] = 20.0
    """Seconds for a statement."""
    changes: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """The most rows that a tried write may change."""

    @field_validator("hide")
    @classmethod
    def _table_and_column(cls, hide: list[str]) -> list[str]:
        for name in hide:
            if len(name.split(".")) != 2 or not all(name.split(".")):
                raise ValueError(f"'{name}' is not TABLE.COLUMN, such as users.password")
        return hide
