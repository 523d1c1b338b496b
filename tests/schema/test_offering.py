"""What Python code may offer as tools, and what is said of the rest."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, Field

from forge_cli.core.errors import SchemaError
from forge_cli.schema.offering import tools_from
from forge_cli.schema.tool import Tool, tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, ToolsetEnv

from ..rows import each_row

ENV = ToolsetEnv(
    worker="w",
    worker_dir=Path("/"),
    workspace=Path("/"),
    home=Path("/"),
    open_sandbox=lambda: None,
    open_processes=lambda: None,
    notify=lambda level, message: None,
)


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(name="renamed", needs_approval=True)
def marked(a: int) -> int:
    """Marked with a name of its own."""
    return a


async def later(a: int) -> int:
    """Answer later."""
    return a


def bare(a):  # type: ignore[no-untyped-def]
    """Say nothing of its parameter."""
    return a


async def _execute(args: Any, context: Any) -> str:
    return "done"


READY = Tool(name="ready", description="Made by hand.", input_schema={"type": "object"}, execute=_execute)


class Box(Toolset):
    name = "box"
    seen: list[str] = []  # noqa: RUF012

    async def __aenter__(self) -> "Box":
        self.seen.append("open")
        return await super().__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        self.seen.append("closed")

    @tool
    def first(self) -> str:
        """First."""
        return self.env.worker

    @tool
    def second(self) -> str:
        """Second."""
        return ""


class One(Toolset):
    name = "one"

    @tool
    def only(self) -> str:
        """Only this."""
        return ""


class NeedyConfig(ToolsetConfig):
    address: str = Field(alias="url")
    depth: int = 1


class Needy(Toolset):
    name = "needy"
    Config = NeedyConfig


class Shape(BaseModel):
    a: int


def offered(thing: Any, name: str = "thing", schema: Any = None) -> Sequence[Tool]:
    async def open_and_close() -> Sequence[Tool]:
        async with AsyncExitStack() as stack:
            return await tools_from(thing, name, env=ENV, stack=stack, schema=schema)

    return anyio.run(open_and_close)


@each_row(
    ("thing", "names"),
    [
        (add, ["add"]),
        (later, ["later"]),
        (marked, ["renamed"]),
        (READY, ["ready"]),
        (Box, ["first", "second"]),
        ([add, READY, Box], ["add", "ready", "first", "second"]),
        ((add,), ["add"]),
        ([], []),
        ({}, []),
        ([[add], [[READY]]], ["add", "ready"]),
        ({"plus": add, "other": marked, "made": READY}, ["plus", "other", "made"]),
        ({"single": One, "several": Box, "group": [add, later], "lone": [add]}, "single first second add later lone"),
    ],
)
def test_what_may_be_offered(thing: Any, names: list[str] | str) -> None:
    assert [each.name for each in offered(thing)] == (names.split() if isinstance(names, str) else names)


@each_row(
    ("thing", "schema", "problem"),
    [
        (7, None, "'thing' is neither a function nor a tool, but a int"),
        (None, None, "'thing' is neither a function nor a tool, but a NoneType"),
        (Shape, None, "'thing' is neither a function nor a tool, but a ModelMetaclass"),
        (partial(add, 1), None, "'thing' is neither a function nor a tool, but a partial"),
        ([add, [7]], None, "'thing[1][0]' is neither a function nor a tool, but a int"),
        ([add, bare], None, "'bare' cannot be a tool: bare: parameter 'a' has no type hint; add one (a: str), or "),
        ({"x": {"y": "z"}}, None, "'y' is neither a function nor a tool, but a str"),
        ({"two words": add}, None, "'two words' is not a name for a tool: use 1 to 64 letters, digits, '_' and '-'"),
        ({7: add, "": add}, None, "'' is not a name for a tool: use 1 to 64 letters, digits, '_' and '-'"),
        (add, 7, "the schema of 'thing' must be a pydantic model or a JSON Schema dict, not a int"),
        (add, add, "the schema of 'thing' must be a pydantic model or a JSON Schema dict, not a function"),
        (Needy, None, "'thing' is a toolset that needs settings (url), and has none here"),
        ([add, Needy], None, "'Needy' is a toolset that needs settings (url), and has none here"),
    ],
)
def test_what_may_not(thing: Any, schema: Any, problem: str) -> None:
    with pytest.raises(SchemaError) as caught:
        offered(thing, schema=schema)
    assert str(caught.value).startswith(problem)
