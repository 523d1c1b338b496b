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

    dsn: Annotated[
        str, Field(description="The address; ${VAR} is a variable of forge's environment.")
    ]


class Rule(Config):
    """An approval for statements of a kind, or for those that touch a table."""

    statement: Annotated[
        Word | None,
        Field(description="The first word of the statement; other is one that is not understood."),
    ] = None
    table: Annotated[
        str | None, Field(description="A table that it reads or writes; * matches any text.")
    ] = None
    connection: Annotated[
        str | None, Field(description="The name of the connection; * matches any text.")
    ] = None
    approval: Annotated[Approval, Field(description="preApproved, ask or blocked.")]


class SqlConfig(ToolsetConfig):
    """Settings such as ``sql: {connections: {shop: {dsn: "sqlite:shop.db"}}}``."""

    connections: Annotated[
        dict[str, Connection], Field(min_length=1, description="The databases by name.")
    ]
    read: Annotated[Approval, Field(description="One statement that only reads.")] = (
        Approval.PRE_APPROVED
    )
    write: Annotated[Approval, Field(description="Statements that change rows.")] = Approval.ASK
    ddl: Annotated[Approval, Field(description="Statements that change tables.")] = Approval.ASK
    rules: Annotated[
        list[Rule],
        Field(
            default_factory=list,
            description="Approvals by statement and table; the strictest counts.",
        ),
    ]
    hide: Annotated[
        list[str],
        Field(
            default_factory=list,
            description="Columns that are never shown, such as users.password.",
        ),
    ]
    functions: Annotated[
        list[str],
        Field(default_factory=list, description="Functions of the database that only compute."),
    ]
    rows: Annotated[int, Field(ge=1, le=10_000, description="The most rows of a result.")] = 200
    timeout: Annotated[float, Field(gt=0, le=600, description="Seconds for a statement.")] = 20.0
    changes: Annotated[
        int, Field(ge=1, le=1_000_000, description="The most rows that a tried change touches.")
    ] = 10_000

    @field_validator("hide")
    @classmethod
    def _table_and_column(cls, hide: list[str]) -> list[str]:
        for name in hide:
            if len(name.split(".")) != 2 or not all(name.split(".")):
                raise ValueError(f"'{name}' is not TABLE.COLUMN, such as users.password")
        return hide
