"""From what Python code offers to tools: typed functions, Tool objects, Toolset classes, lists and dicts of them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from forge_cli.core.signature import SchemaError
from forge_cli.core.tool import Tool
from forge_cli.core.toolset import Toolset, ToolsetConfig, ToolsetEnv


async def tools_from(
    thing: Any, name: str, *, env: ToolsetEnv, stack: AsyncExitStack, schema: Any = None
) -> Sequence[Tool]:
    """The tools that ``thing`` stands for; ``name`` is what the worker calls it, and ``stack`` closes what is opened.

    What cannot be a tool is a SchemaError that says why.
    """
    if isinstance(thing, Tool):
        return [thing]
    if is_toolset(thing):
        toolset = await stack.enter_async_context(thing(_no_settings(thing, name), env))
        return list(await toolset.tools())
    if inspect.isroutine(thing):
        return [_from_function(thing, name, schema)]
    if isinstance(thing, dict):
        found = [(str(key), await tools_from(item, str(key), env=env, stack=stack)) for key, item in thing.items()]
        return [_renamed(tool, key) if len(tools) == 1 else tool for key, tools in found for tool in tools]
    if isinstance(thing, list | tuple):
        labelled = [(item, getattr(item, "__name__", f"{name}[{index}]")) for index, item in enumerate(thing)]
        several = [await tools_from(item, label, env=env, stack=stack) for item, label in labelled]
        return [tool for tools in several for tool in tools]
    raise SchemaError(f"'{name}' is neither a function nor a tool, but a {type(thing).__name__}")


def is_toolset(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Toolset)


def _no_settings(cls: type[Toolset], name: str) -> ToolsetConfig:
    """Settings for a toolset that has no section of its own in the worker file."""
    required = [field.alias or key for key, field in cls.Config.model_fields.items() if field.is_required()]
    if required:
        raise SchemaError(f"'{name}' is a toolset that needs settings ({', '.join(required)}), and has none here")
    return cls.Config()


def _renamed(tool: Tool, name: str) -> Tool:
    return replace(tool, name=name)


def _from_function(function: Any, name: str, schema: Any) -> Tool:
    if schema is not None and not isinstance(schema, dict) and not _is_model(schema):
        kind = type(schema).__name__
        raise SchemaError(f"the schema of '{name}' must be a pydantic model or a JSON Schema dict, not a {kind}")
    try:
        return Tool.from_function(function, schema=schema)
    except SchemaError as error:
        raise SchemaError(f"'{name}' cannot be a tool: {error}") from None


def _is_model(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseModel)
