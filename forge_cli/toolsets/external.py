"""The toolset ``external``: tools from any installed package, named by where in it they are."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from typing import Any

from pydantic import Field

from forge_cli.core.config import nearest
from forge_cli.core.errors import WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.offering import is_toolset, tools_from
from forge_cli.core.schema import SchemaError
from forge_cli.core.tool import Source, Tool, digest_of
from forge_cli.core.toolset import Toolset, ToolsetConfig


class ExternalConfig(ToolsetConfig):
    """``import: name`` is looked up in the module ``package``."""

    package: str
    import_: str = Field(alias="import")


class ExternalToolset(Toolset):
    name = "external"
    Config = ExternalConfig
    repeatable = True

    async def tools(self) -> Sequence[Tool]:
        if not hasattr(self, "_tools"):
            self._tools = await self._load()
        return self._tools

    async def _load(self) -> list[Tool]:
        thing = self._find(self._import())
        try:
            found = await tools_from(thing, self.config.import_, env=self.env, stack=self.stack)
        except SchemaError as error:
            problem = f"toolsets.external: {self.config.package}: {error}"
            raise WorkerError(self.config.where("import"), problem) from None
        source = Source("external", self._origin())
        return [replace(tool, source=source, digest=tool.digest or _digest(thing, source)) for tool in found]

    def _import(self) -> Any:
        package = self.config.package
        try:
            return import_module(package)
        except (Exception, SystemExit) as error:  # foreign code: whatever happens while it is imported
            missing = isinstance(error, ModuleNotFoundError) and package.startswith(error.name or package)
            hint = f"pip install the distribution that has '{package}'" if missing else None
            problem = f"toolsets.external: '{package}' cannot be imported: {type(error).__name__}: {error}"
            raise WorkerError(self.config.where("package"), problem, hint=hint) from error

    def _find(self, module: Any) -> Any:
        thing = module
        for attribute in self.config.import_.split("."):
            if not hasattr(thing, attribute):
                public = [name for name in dir(thing) if not name.startswith("_")]
                near = nearest(attribute, public)
                hint = f"did you mean '{near}'?" if near else None
                problem = f"toolsets.external: {self.config.package} has no '{self.config.import_}'"
                raise WorkerError(self.config.where("import"), problem, hint=hint)
            thing = getattr(thing, attribute)
        return thing

    def _origin(self) -> str:
        """The distribution, most often called like its package; looking through all that is installed is slow."""
        package: str = self.config.package.partition(".")[0]
        with suppress(PackageNotFoundError):
            return f"{package} {version(package)}"
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
