"""The toolset ``external``: tools from any installed Python package, including other frameworks.

Tools of other frameworks are recognized by their attributes, without importing the frameworks. Each
becomes a Tool without approval and effects, so that it asks unless the worker decides, and that is
not bound to zones.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import Field

from forge_cli.core.bounds import MORE_TIME_TO_LOAD, call_within, fault_text, run_in_thread
from forge_cli.core.errors import ExitCode, SchemaError, ToolError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.source import Source
from forge_cli.core.text import did_you_mean
from forge_cli.core.thirdparty import announce_third_party
from forge_cli.core.tool import Args, digest_of
from forge_cli.core.wire import JsonObject
from forge_cli.files.settings_files import import_timeout
from forge_cli.schema.offering import Offering
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, is_toolset

Invoke = Callable[[Args], Awaitable[Any]]
_MISSING = object()
_SMOL_TYPES = {"string", "boolean", "integer", "number", "array", "object", "null"}
_FROM_OUTSIDE = "of its framework, and there is none here"


class ExternalConfig(ToolsetConfig):
    """The package and the name in it to offer as tools."""

    package: str
    """An installed package, or a module in it."""
    import_: str = Field(alias="import")
    """A function, a tool, a toolset, a list of these, or a tool of another framework."""


class ExternalToolset(Offering):
    """Tools from an installed package."""

    name = "external"
    Config = ExternalConfig
    repeatable = True
    imports = True
    checks_output = False  # annotations of a package are written for its readers

    @classmethod
    def machine_needs(cls, config: Any, home: Path) -> Mapping[str, str]:
        top = config.package.partition(".")[0]
        return {f"the package '{top}'": _origin(top)} if find_spec(top) else {}

    async def tools(self) -> Sequence[Tool]:
        if not hasattr(self, "_tools"):
            self._tools = await self._load()
        return self._tools

    async def _load(self) -> list[Tool]:
        thing, schema = self._find(self._import(self.config.package, "package"))
        try:
            found = await self.tools_from(adapt(thing), self.config.import_, schema)
        except SchemaError as error:
            problem = f"toolsets.external: {self.config.package}: {error}"
            raise WorkerError(self.config.where("import"), problem) from None
        source = Source("external", _origin(self.config.package.partition(".")[0]))
        return [
            replace(tool, source=source, digest=tool.digest or _digest(thing, source))
            for tool in found
        ]

    def _import(self, module: str, key: str) -> Any:
        announce_third_party(f"the package '{module}'")
        try:
            what = f"importing the package '{module}'"
            return call_within(
                import_timeout(),
                what,
                import_module,
                module,
                exit_code=ExitCode.INVALID,
                remedy=MORE_TIME_TO_LOAD,
            )
        except Exception as error:  # third-party code: whatever happens while it is imported
            # A missing dependency of the module has another name, so the hint would mislead.
            missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(
                f"{error.name}."
            )
            hint = f"install the distribution that contains '{module}'" if missing else None
            problem = f"toolsets.external: '{module}' cannot be imported: {fault_text(error)}"
            raise WorkerError(
                self.config.where(key), problem, hint=_not_a_module(module) or hint
            ) from error

    def _find(self, module: Any) -> tuple[Any, Any]:
        """Return the object that the worker names, and the value of ``NAME_schema`` beside it."""
        *holders, name = self.config.import_.split(".")
        holder = module
        for attribute in holders:
            holder = self._member(holder, attribute)
        return self._member(holder, name), getattr(holder, f"{name}_schema", None)

    def _member(self, holder: Any, name: str) -> Any:
        """Return an attribute, or a module of a package, which is imported if needed."""
        if (
            not hasattr(holder, name)
            and hasattr(holder, "__path__")
            and find_spec(f"{holder.__name__}.{name}")
        ):
            return self._import(f"{holder.__name__}.{name}", "import")
        if not hasattr(holder, name):
            public = [each for each in dir(holder) if not each.startswith("_")]
            hint = did_you_mean(name, public, "") or None
            problem = f"toolsets.external: {self.config.package} has no '{self.config.import_}'"
            raise WorkerError(self.config.where("import"), problem, hint=hint)
        return getattr(holder, name)


def _not_a_module(name: str) -> str | None:
    """Return a hint for a name that cannot be a Python module; None if it can."""
    if name.startswith((".", "/")) or name.endswith(".py"):
        return "for a file beside the worker, use toolsets.custom.module"
    if name.startswith("@") or "/" in name:
        return "only Python packages work here; use an MCP server or an executable for npm packages"
    if "-" in name:
        return f"use the name of the module, which may be '{name.replace('-', '_')}'"
    if not all(part.isidentifier() for part in name.split(".")):
        return "use the name of a module, such as: package: langchain_community.tools"
    return None


@cache
def _origin(package: str) -> str:
    """Return the distribution of a package; search all distributions only if the names differ."""
    with suppress(PackageNotFoundError):
        return f"{package} {version(package)}"
    with suppress(Exception):  # third-party files: the metadata of everything that is installed
        for distribution in packages_distributions().get(package, []):
            return f"{distribution} {version(distribution)}"
    return package


def _digest(thing: Any, source: Source) -> str:
    """Return a digest of the source of a function or class, or of the package version."""
    shown = ""
    with suppress(OSError, TypeError):  # code without a source file, such as a C extension
        if inspect.isroutine(thing) or is_toolset(thing):
            shown = inspect.getsource(thing)
    return digest_of(f"{source}\n{shown}".encode())


class ToolShape(NamedTuple):
    """The tools of one framework: the attributes that they have, and how to convert one."""

    framework: str
    names: tuple[str, ...]
    read: Callable[[Any], Iterator[Any]]
    """Yields Tool objects, or objects that have one of the shapes."""

    def fits(self, thing: Any) -> bool:
        return all(_has(thing, name) for name in self.names)


def adapt(thing: Any) -> Any:
    """Convert tools of other frameworks to Tool objects, also in lists and dicts."""
    if isinstance(thing, dict):
        return {key: adapt(item) for key, item in thing.items()}
    if isinstance(thing, list | tuple):
        return [adapt(item) for item in thing]
    shape = next((shape for shape in SHAPES if shape.fits(thing)), None)
    if shape is None:
        return thing
    return [adapt(each) for each in shape.read(_instance(thing, shape.framework))]


def _has(thing: Any, name: str) -> bool:
    """Return True if an attribute exists, without running code of the object."""
    if inspect.getattr_static(thing, name, _MISSING) is not _MISSING:
        return True
    return isinstance(thing, type) and name in getattr(thing, "__pydantic_fields__", {})


def _instance(thing: Any, framework: str) -> Any:
    """Return an instance of a class without arguments; other objects are returned as they are."""
    if not isinstance(thing, type):
        return thing
    try:
        return thing()
    except Exception as error:  # third-party code
        problem = f"the class '{thing.__name__}' ({framework}) needs arguments: {error}"
        raise SchemaError(f"{problem}; create an instance in a module and name that") from error


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
    """Return a JSON Schema as a dict; convert a model of pydantic 1 or 2."""
    if isinstance(schema, Mapping):
        return dict(schema)
    write = getattr(schema, "model_json_schema", None) or getattr(schema, "schema", None)
    if write is None:
        raise SchemaError(
            f"its schema has the type {type(schema).__name__}, not JSON Schema or a pydantic model"
        )
    return dict(write())


def _langchain(tool: Any) -> Iterator[Any]:
    if tool.args_schema is None and getattr(tool, "args", None):
        schema: Any = {"properties": dict(tool.args), "required": list(tool.args)}
    else:
        # The first one leaves out arguments that LangChain would inject.
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

    properties = {
        name: _smol_property(tool.name, name, dict(said)) for name, said in tool.inputs.items()
    }
    required = [name for name, said in tool.inputs.items() if not said.get("nullable")]
    schema = {"properties": properties, "required": required, "additionalProperties": False}
    yield _tool(tool.name, tool.description, schema, invoke)


def _smol_property(tool: str, name: str, said: JsonObject) -> JsonObject:
    """Return the JSON Schema of a smolagents input; ``any`` is no constraint.

    Raise SchemaError for types that JSON cannot express, such as images.
    """
    nullable = said.pop("nullable", False)
    kinds = said.pop("type", "any")
    listed = [kinds] if isinstance(kinds, str) else list(kinds)
    if "any" in listed:
        return said
    if strange := [kind for kind in listed if kind not in _SMOL_TYPES]:
        raise SchemaError(
            f"'{tool}' takes '{name}' as {', '.join(map(str, strange))}, "
            "which JSON cannot represent"
        )
    if nullable and "null" not in listed:
        listed.append("null")
    return {"type": listed[0] if len(listed) == 1 else listed, **said}


def _crewai(tool: Any) -> Iterator[Any]:
    async def invoke(args: Args) -> Any:
        return await run_in_thread(tool.run, **args)

    # Names are titles, such as "Word Count". Older versions put name and schema before the
    # description.
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", str(tool.name)).strip("_").lower()
    description = str(tool.description).rpartition("Tool Description: ")[2]
    yield _tool(name, description, _json_schema(tool.args_schema), invoke)


def _openai_agents(tool: Any) -> Iterator[Any]:
    async def invoke(args: Args) -> Any:
        text = json.dumps(args, ensure_ascii=False)
        context = _tool_context(tool)(
            context=None, tool_name=tool.name, tool_call_id="call", tool_arguments=text
        )
        return await tool.on_invoke_tool(context, text)

    yield _tool(tool.name, tool.description, _json_schema(tool.params_json_schema), invoke)


def _tool_context(tool: Any) -> Any:
    """Return the context class of the framework, whose package is imported already."""
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
    ToolShape("CrewAI", ("name", "description", "args_schema", "run", "max_usage_count"), _crewai),
    ToolShape("pydantic-ai", ("name", "takes_ctx", "function_schema"), _pydantic_ai),
    ToolShape(
        "smolagents", ("name", "description", "inputs", "output_type", "forward"), _smolagents
    ),
    ToolShape(
        "openai-agents",
        ("name", "description", "params_json_schema", "on_invoke_tool"),
        _openai_agents,
    ),
    ToolShape("llama-index", ("metadata", "acall"), _llama_index),
    ToolShape("pydantic-ai", ("tools", "call_tool"), lambda toolset: iter(toolset.tools.values())),
    ToolShape(
        "LangChain", ("get_tools", "__pydantic_fields__"), lambda toolkit: iter(toolkit.get_tools())
    ),
    ToolShape("llama-index", ("to_tool_list",), lambda spec: iter(spec.to_tool_list())),
)
"""The known shapes; the first one that fits is used."""


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [ExternalToolset]
