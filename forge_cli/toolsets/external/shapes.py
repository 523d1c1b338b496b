"""Tools of other frameworks, known by their shape: none of those packages is imported here.

Each becomes a Tool that says nothing of approval and effects, so that it asks unless the worker decides, and that is
not bound to zones: its author knows nothing of them.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

from forge_cli.core.bounds import run_in_thread
from forge_cli.core.errors import SchemaError, ToolError
from forge_cli.core.tool import Args
from forge_cli.core.wire import JsonObject
from forge_cli.schema.tool import Tool

Invoke = Callable[[Args], Awaitable[Any]]

_MISSING = object()
_SMOL_TYPES = {"string", "boolean", "integer", "number", "array", "object", "null"}
_FROM_OUTSIDE = "of its framework, and there is none here"


class ToolShape(NamedTuple):
    """A kind of object: the names that all of its kind have, and the tools that one stands for."""

    framework: str
    names: tuple[str, ...]
    read: Callable[[Any], Iterator[Any]]
    """Gives Tool objects, or again something that has one of the shapes."""

    def fits(self, thing: Any) -> bool:
        return all(_has(thing, name) for name in self.names)


def adapt(thing: Any) -> Any:
    """Tool objects for tools of other frameworks, in lists and dicts too; all else as it is."""
    if isinstance(thing, dict):
        return {key: adapt(item) for key, item in thing.items()}
    if isinstance(thing, list | tuple):
        return [adapt(item) for item in thing]
    shape = next((shape for shape in SHAPES if shape.fits(thing)), None)
    if shape is None:
        return thing
    return [adapt(each) for each in shape.read(_instance(thing, shape.framework))]


def _has(thing: Any, name: str) -> bool:
    """Whether an attribute is there, without running code for it: an object may answer to any name."""
    if inspect.getattr_static(thing, name, _MISSING) is not _MISSING:
        return True
    return isinstance(thing, type) and name in getattr(thing, "__pydantic_fields__", {})


def _instance(thing: Any, framework: str) -> Any:
    """An object of a class that needs nothing to be made; packages offer their tools as classes, too."""
    if not isinstance(thing, type):
        return thing
    try:
        return thing()
    except Exception as error:  # third-party code
        problem = f"the class '{thing.__name__}' ({framework}) cannot be made without arguments: {error}"
        raise SchemaError(f"{problem}; make one in a module of your own, and name that") from error


def _tool(name: Any, description: Any, schema: JsonObject, invoke: Invoke) -> Tool:
    async def execute(args: Args, context: Any) -> Any:
        return await invoke(args)

    return Tool(
        name=str(name),
        description=str(description or "").strip() or f"Custom tool: {name}",
        input_schema={"type": "object", "properties": {}, **schema},
        execute=execute,
        bound_to_zones=False,
    )


def _json_schema(schema: Any) -> JsonObject:
    """A JSON Schema, or that of a pydantic model of either generation."""
    if isinstance(schema, Mapping):
        return dict(schema)
    write = getattr(schema, "model_json_schema", None) or getattr(schema, "schema", None)
    if write is None:
        raise SchemaError(f"its schema is a {type(schema).__name__}, neither JSON Schema nor a pydantic model")
    return dict(write())


def _langchain(tool: Any) -> Iterator[Any]:
    if tool.args_schema is None and getattr(tool, "args", None):
        schema: Any = {"properties": dict(tool.args), "required": list(tool.args)}
    else:
        schema = getattr(tool, "tool_call_schema", None) or tool.args_schema or {}
    yield _tool(tool.name, tool.description, _json_schema(schema), tool.ainvoke)


def _pydantic_ai(tool: Any) -> Iterator[Any]:
    if tool.takes_ctx:
        raise SchemaError(f"'{tool.name}' takes the RunContext {_FROM_OUTSIDE}")
    function = tool.function_schema

    async def invoke(args: Args) -> Any:
        result = await function.call(function.validator.validate_python(args), None)
        return result.return_value if _has(result, "return_value") else result

    yield _tool(tool.name, tool.description, function.json_schema, invoke)


def _smolagents(tool: Any) -> Iterator[Any]:
    async def invoke(args: Args) -> Any:
        return await run_in_thread(tool, **args)

    properties = {name: _smol_property(tool.name, name, dict(said)) for name, said in tool.inputs.items()}
    required = [name for name, said in tool.inputs.items() if not said.get("nullable")]
    schema = {"properties": properties, "required": required, "additionalProperties": False}
    yield _tool(tool.name, tool.description, schema, invoke)


def _smol_property(tool: str, name: str, said: JsonObject) -> JsonObject:
    """``any`` is not a constraint; what JSON cannot carry, such as an image, cannot be passed."""
    nullable, kinds = said.pop("nullable", False), said.pop("type", "any")
    listed = [kinds] if isinstance(kinds, str) else list(kinds)
    if "any" in listed:
        return said
    if strange := [kind for kind in listed if kind not in _SMOL_TYPES]:
        raise SchemaError(f"'{tool}' takes '{name}' as {', '.join(map(str, strange))}, which JSON cannot carry")
    if nullable and "null" not in listed:
        listed.append("null")
    return {"type": listed[0] if len(listed) == 1 else listed, **said}


def _openai_agents(tool: Any) -> Iterator[Any]:
    async def invoke(args: Args) -> Any:
        text = json.dumps(args, ensure_ascii=False)
        context = _tool_context(tool)(context=None, tool_name=tool.name, tool_call_id="call", tool_arguments=text)
        return await tool.on_invoke_tool(context, text)

    yield _tool(tool.name, tool.description, _json_schema(tool.params_json_schema), invoke)


def _tool_context(tool: Any) -> Any:
    """The class of the context that a call of it wants, from where its package, which is loaded, has it."""
    package = type(tool).__module__.partition(".")[0]
    return getattr(sys.modules.get(f"{package}.tool_context"), "ToolContext", SimpleNamespace)


def _llama_index(tool: Any) -> Iterator[Any]:
    about = tool.metadata
    if getattr(tool, "requires_context", False):
        raise SchemaError(f"'{about.name}' takes the Context {_FROM_OUTSIDE}")

    async def invoke(args: Args) -> Any:
        output = await tool.acall(**args)
        if output.is_error:
            raise ToolError(str(output.content))
        return output.content

    yield _tool(about.name, about.description, _json_schema(about.get_parameters_dict()), invoke)


SHAPES = (
    ToolShape("LangChain", ("name", "description", "args_schema", "ainvoke"), _langchain),
    ToolShape("pydantic-ai", ("name", "takes_ctx", "function_schema"), _pydantic_ai),
    ToolShape("smolagents", ("name", "description", "inputs", "output_type", "forward"), _smolagents),
    ToolShape("openai-agents", ("name", "description", "params_json_schema", "on_invoke_tool"), _openai_agents),
    ToolShape("llama-index", ("metadata", "acall"), _llama_index),
    ToolShape("pydantic-ai", ("tools", "call_tool"), lambda toolset: iter(toolset.tools.values())),
    ToolShape("LangChain", ("get_tools", "__pydantic_fields__"), lambda toolkit: iter(toolkit.get_tools())),
    ToolShape("llama-index", ("to_tool_list",), lambda spec: iter(spec.to_tool_list())),
)
