"""Tools from Python code: functions, Tool objects, Toolset classes, and collections of these."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from forge_cli.core.errors import SchemaError
from forge_cli.core.hookspecs import hookimpl, is_hook
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, is_toolset, settled, tools_of

if TYPE_CHECKING:
    from forge_cli.core.approval import GrantRule
    from forge_cli.core.requests import PromptSpec, ResourceSpec


class Offering(Toolset):
    """A toolset of Python code; toolsets among it share its life and answer through it."""

    checks_output: ClassVar[bool] = True
    """True if results of functions are checked against their return annotations."""

    @cached_property
    def _inner(self) -> list[Toolset]:
        return []

    def rule_kept(self, rule: GrantRule) -> None:
        for each in self._inner:
            each.rule_kept(rule)

    def instructions(self) -> str | None:
        texts = [each.instructions() for each in self._inner]
        return "\n\n".join(str(text) for text in texts if text) or None

    async def prompts(self) -> Sequence[PromptSpec]:
        found: list[PromptSpec] = []
        for each in self._inner:
            found += await settled(each.prompts())
        return found

    async def get_prompt(self, name: str, args: Mapping[str, str]) -> Any:
        owner = await self._owner_of_prompt(name)
        if owner is None:
            return await super().get_prompt(name, args)
        return await settled(owner.get_prompt(name, args))

    async def complete_prompt(self, name: str, argument: str, text: str) -> Sequence[str]:
        owner = await self._owner_of_prompt(name)
        if owner is None:
            return []
        return list(await settled(owner.complete_prompt(name, argument, text)))

    async def _owner_of_prompt(self, name: str) -> Toolset | None:
        """Return the first of its toolsets with the prompt; only the first duplicate is listed."""
        for each in self._inner:
            if any(spec.name == name for spec in await settled(each.prompts())):
                return each
        return None

    async def resources(self) -> Sequence[ResourceSpec]:
        found: list[ResourceSpec] = []
        for each in self._inner:
            found += await settled(each.resources())
        return found

    async def read_resource(self, uri: str, args: Mapping[str, str]) -> Any:
        for each in self._inner:
            if any(spec.match(uri) is not None for spec in await settled(each.resources())):
                return await settled(each.read_resource(uri, args))
        return await super().read_resource(uri, args)

    async def open(self, toolset: Toolset) -> Toolset:
        """Open a toolset that closes together with this one."""
        await self.stack.enter_async_context(toolset)
        self._inner.append(toolset)
        return toolset

    async def tools_from(self, thing: Any, name: str, schema: Any = None) -> Sequence[Tool]:
        """Return the tools of ``thing``, which the worker calls ``name``."""
        if isinstance(thing, Tool):
            return [thing]
        if is_toolset(thing):
            return await tools_of(await self.open(thing(_no_settings(thing, name), self.env)))
        if inspect.isroutine(thing):
            overrides = {} if self.checks_output else {"check_output": False}
            return [_from_function(thing, name, schema, overrides)]
        if isinstance(thing, dict):
            return await self._tools_by_name(thing)
        if isinstance(thing, list | tuple):
            found: list[Tool] = []
            for index, item in enumerate(thing):
                found += await self.tools_from(item, getattr(item, "__name__", f"{name}[{index}]"))
            return found
        raise SchemaError(
            f"'{name}' is neither a function nor a tool, but of type {type(thing).__name__}"
        )

    async def _tools_by_name(self, things: Mapping[Any, Any]) -> list[Tool]:
        """Return the tools of a mapping; a key renames its tool if it has only one."""
        found: list[Tool] = []
        for key, item in things.items():
            tools = await self.tools_from(item, str(key))
            if len(tools) == 1:
                tools = [replace(tools[0], name=str(key))]
            found += tools
        return found


class GivenTools(Offering):
    """Functions, tools and collections of them that a program passes to a worker."""

    name = "python"

    def __init__(self, config: ToolsetConfig, things: Sequence[Any]) -> None:
        super().__init__(config)
        self._things = things
        self._found: Sequence[Tool] | None = None

    async def tools(self) -> Sequence[Tool]:
        if self._found is None:
            self._found = await self.tools_from(list(self._things), "tools")
        return self._found


class ModuleTools(Offering):
    """The tools of a module with plain functions, created when they are requested."""

    module: ClassVar[ModuleType]

    @property
    def names(self) -> list[str]:
        from forge_cli.schema.unfit import offerable_names

        return offerable_names(self.module)

    async def tools(self) -> Sequence[Tool]:
        found: list[Tool] = []
        for name in self.names:
            found += await self.tools_named(name)
        return found

    async def tools_named(self, name: str) -> Sequence[Tool]:
        """Return the tools of one name: of a Tool, a Toolset or a typed function.

        Raise SchemaError for anything else.
        """
        thing = getattr(self.module, name)
        if is_hook(thing):
            raise SchemaError(f"'{name}' is a hook, which forge calls itself, and not a tool")
        return await self.tools_from(thing, name, _schema_beside(self.module, name))


class ModuleAdapter:
    """A module of plain functions as a plugin, with the same hook as a package."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    @hookimpl
    def forge_toolsets(self) -> list[type[Toolset]]:
        return [type("LocalTools", (ModuleTools,), {"name": "local", "module": self._module})]


def has_prompts(toolset: Toolset) -> bool:
    """Return True if a toolset may have prompts, as far as known without asking it."""
    if isinstance(toolset, Offering):
        return any(has_prompts(each) for each in toolset._inner)
    return type(toolset).prompts is not Toolset.prompts


def _schema_beside(module: ModuleType, name: str) -> Any:
    """Return the schema next to a function, under either of its two names."""
    spellings = [each for each in (f"{name}_schema", f"{name}Schema") if each in vars(module)]
    if len(spellings) > 1:
        raise SchemaError(f"there are both {' and '.join(spellings)}; keep one")
    if not spellings:
        return None
    return getattr(module, spellings[0])


def _no_settings(cls: type[Toolset], name: str) -> ToolsetConfig:
    """Return default settings for a toolset without a section in the worker file."""
    fields = cls.Config.model_fields
    required = [field.alias or key for key, field in fields.items() if field.is_required()]
    if required:
        needed = ", ".join(required)
        raise SchemaError(
            f"'{name}' is a toolset that requires settings ({needed}), but it has no section here"
        )
    for hook in ("zones", "zones_for"):
        # getattr_static, because reading a classmethod makes a new object each time.
        if inspect.getattr_static(cls, hook) is not vars(Toolset)[hook]:
            remedy = "give it a section, by 'plugins' of the worker or a package"
            raise SchemaError(f"'{name}' is a toolset that adds zones; {remedy}")
    return cls.Config()


def _from_function(function: Any, name: str, schema: Any, overrides: Mapping[str, Any]) -> Tool:
    try:
        if schema is not None:
            from forge_cli.schema.unfit import check_schema

            check_schema(function, schema)
        return Tool.from_function(function, schema=schema, **overrides)
    except SchemaError as error:
        from forge_cli.schema.unfit import reason

        raise SchemaError(f"'{name}' cannot be a tool: {reason(function, error)}") from None
