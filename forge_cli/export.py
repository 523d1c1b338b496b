"""The tools of an open worker as functions, and as tools of other frameworks.

Each call passes the worker's gate. A framework is imported only by its own function. The text of a
failed or denied call goes to the framework's model, as it would to a worker's model.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Unpack

from forge_cli.core.errors import ModelError, ToolError, UsageError
from forge_cli.engine.runtime.runtime import WorkerRuntime

if TYPE_CHECKING:
    import agents
    import langchain_core.tools
    import pydantic_ai

    from forge_cli.core.messages import Delta, ModelRequest
    from forge_cli.engine.runtime.wiring import RuntimeOptions
    from forge_cli.files.worker import Worker
    from forge_cli.schema.tool import Tool

__all__ = ["functions", "langchain_tools", "open_tools", "openai_agents_tools", "pydantic_ai_tools"]


class _NoModel:
    """The model of a worker that is opened for its tools only."""

    name = "none"
    context_window = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        raise ModelError(
            "the worker was opened for its tools only",
            hint="pass a model to open_tools to run tasks, too",
        )
        yield  # makes this function an async generator

    async def aclose(self) -> None:
        """Do nothing."""


@asynccontextmanager
async def open_tools(
    worker: Worker, **options: Unpack[RuntimeOptions]
) -> AsyncIterator[WorkerRuntime[Any]]:
    """Open a worker for its tools.

    It needs no model. ``options`` are those of WorkerRuntime, and may still contain one.
    """
    given: RuntimeOptions = {"model": _NoModel(), **options}
    async with WorkerRuntime(worker=worker, **given) as runtime:
        yield runtime


def functions(
    runtime: WorkerRuntime[Any], names: Iterable[str] | None = None
) -> list[Callable[..., Awaitable[Any]]]:
    """Return the tools of a worker as async functions with keyword arguments.

    Each function has the name, description and parameters of its tool. It returns the data of a
    JSON result, or else the text. It raises a ToolError for a failed or denied call. ``names``
    selects tools; by default all are returned.
    """
    return [_function(runtime, tool) for tool in _chosen(runtime, names)]


def langchain_tools(
    runtime: WorkerRuntime[Any], names: Iterable[str] | None = None
) -> list[langchain_core.tools.StructuredTool]:
    """Return the tools of a worker, or those named, for LangChain and LangGraph."""
    from langchain_core.tools import StructuredTool

    return [
        StructuredTool(
            name=tool.name,
            description=tool.description,
            args_schema=tool.schema.json_schema,
            coroutine=_text_of(runtime, tool),
        )
        for tool in _chosen(runtime, names)
    ]


def pydantic_ai_tools(
    runtime: WorkerRuntime[Any], names: Iterable[str] | None = None
) -> list[pydantic_ai.Tool[object]]:
    """Return the tools of a worker, or those named, for pydantic-ai."""
    from pydantic_ai import Tool as PydanticAITool

    return [
        PydanticAITool.from_schema(
            _text_of(runtime, tool), tool.name, tool.description, tool.schema.json_schema
        )
        for tool in _chosen(runtime, names)
    ]


def openai_agents_tools(
    runtime: WorkerRuntime[Any], names: Iterable[str] | None = None
) -> list[agents.FunctionTool]:
    """Return the tools of a worker, or those named, for the OpenAI Agents SDK."""
    from agents import FunctionTool

    return [
        FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.schema.json_schema,
            on_invoke_tool=_from_json(runtime, tool),
            # strict schemas have no optional fields, which most tools use
            strict_json_schema=False,
        )
        for tool in _chosen(runtime, names)
    ]


def _chosen(runtime: WorkerRuntime[Any], names: Iterable[str] | None) -> list[Tool]:
    """Return the tools that a model may call, or those with these names."""
    if names is None:
        return [tool for tool in runtime.tools if tool.mode != "manual"]
    known = {tool.name: tool for tool in runtime.tools}
    wanted = [names] if isinstance(names, str) else list(names)
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"the worker has no tool {name!r}; "
                f"its tools are {', '.join(sorted(known)) or 'none'}"
            )
    return [known[name] for name in wanted]


def _function(runtime: WorkerRuntime[Any], tool: Tool) -> Callable[..., Awaitable[Any]]:
    async def call(**args: Any) -> Any:
        outcome = await runtime.call(tool.name, args)
        if outcome.status != "success":
            raise ToolError(outcome.text())
        data = getattr(outcome.value, "data", None)
        return outcome.text() if data is None else data

    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = tool.description
    call.__signature__ = _signature(tool)  # type: ignore[attr-defined]
    return call


def _signature(tool: Tool) -> inspect.Signature:
    """Return the Python signature of a tool.

    Parameters whose names are not valid in Python become ``**args``.
    """
    schema = tool.schema.json_schema
    required = schema.get("required", [])
    parameters: list[inspect.Parameter] = []
    others = False
    for name, field in schema.get("properties", {}).items():
        if not name.isidentifier():
            others = True
            continue
        default: Any = None
        if name in required:
            default = inspect.Parameter.empty
        elif field is not True:
            default = field.get("default")
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    if others:
        parameters.append(inspect.Parameter("args", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _text_of(runtime: WorkerRuntime[Any], tool: Tool) -> Callable[..., Awaitable[str]]:
    async def call(**args: Any) -> str:
        return (await runtime.call(tool.name, args)).text()

    return call


def _from_json(runtime: WorkerRuntime[Any], tool: Tool) -> Callable[[Any, str], Awaitable[str]]:
    async def call(context: Any, text: str) -> str:
        try:
            args = json.loads(text or "{}")
        except ValueError as error:
            return f"the arguments are not JSON: {error}"
        if not isinstance(args, dict):
            return "the arguments must be a JSON object"
        return (await runtime.call(tool.name, args)).text()

    return call


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)
