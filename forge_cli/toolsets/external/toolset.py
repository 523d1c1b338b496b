"""The toolset ``external``: tools from any installed package, named by where in it they are."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import Field

from forge_cli.core.bounds import call_within, fault_text
from forge_cli.core.errors import ExitCode, SchemaError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.source import Source
from forge_cli.core.text import did_you_mean
from forge_cli.core.thirdparty import announce_third_party
from forge_cli.core.tool import digest_of
from forge_cli.files.settings import import_timeout
from forge_cli.schema.offering import tools_from
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, is_toolset
from forge_cli.toolsets.external.shapes import adapt


class ExternalConfig(ToolsetConfig):
    """``import: name`` is looked up in the module ``package``."""

    package: str
    """An installed package, or a module in it."""
    import_: str = Field(alias="import")
    """The name in it: a function, a tool, a toolset, a list of these, or a tool of another framework."""


class ExternalToolset(Toolset):
    name = "external"
    Config = ExternalConfig
    repeatable = True
    imports = True

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
            found = await tools_from(adapt(thing), self.config.import_, env=self.env, stack=self.stack, schema=schema)
        except SchemaError as error:
            problem = f"toolsets.external: {self.config.package}: {error}"
            raise WorkerError(self.config.where("import"), problem) from None
        source = Source("external", _origin(self.config.package.partition(".")[0]))
        return [replace(tool, source=source, digest=tool.digest or _digest(thing, source)) for tool in found]

    def _import(self, module: str, key: str) -> Any:
        announce_third_party(f"the package '{module}'")
        try:
            what = f"importing the package '{module}'"
            return call_within(import_timeout(), what, import_module, module, exit_code=ExitCode.INVALID)
        except Exception as error:  # third-party code: whatever happens while it is imported
            missing = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
            hint = f"pip install the distribution that has '{module}'" if missing else None
            problem = f"toolsets.external: '{module}' cannot be imported: {fault_text(error)}"
            raise WorkerError(self.config.where(key), problem, hint=hint) from error

    def _find(self, module: Any) -> tuple[Any, Any]:
        """The tool that the worker names, and the schema that stands beside it, if any."""
        *holders, name = self.config.import_.split(".")
        holder = module
        for attribute in holders:
            holder = self._member(holder, attribute)
        return self._member(holder, name), getattr(holder, f"{name}_schema", None)

    def _member(self, holder: Any, name: str) -> Any:
        """An attribute, or a module in a package that is not imported yet."""
        if not hasattr(holder, name) and hasattr(holder, "__path__") and find_spec(f"{holder.__name__}.{name}"):
            return self._import(f"{holder.__name__}.{name}", "import")
        if not hasattr(holder, name):
            hint = did_you_mean(name, [public for public in dir(holder) if not public.startswith("_")], "") or None
            problem = f"toolsets.external: {self.config.package} has no '{self.config.import_}'"
            raise WorkerError(self.config.where("import"), problem, hint=hint)
        return getattr(holder, name)


@cache
def _origin(package: str) -> str:
    """The distribution, most often called like its package; looking through all that is installed is slow."""
    with suppress(PackageNotFoundError):
        return f"{package} {version(package)}"
    with suppress(Exception):  # third-party files: the metadata of everything that is installed
        for distribution in packages_distributions().get(package, []):
            return f"{distribution} {version(distribution)}"
    return package


def _digest(thing: Any, source: Source) -> str:
    """The source of a function or class where Python can show it, else the version it came with."""
    try:
        shown = inspect.getsource(thing) if inspect.isroutine(thing) or is_toolset(thing) else ""
    except (OSError, TypeError):
        shown = ""
    return digest_of(f"{source}\n{shown}".encode())


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [ExternalToolset]
