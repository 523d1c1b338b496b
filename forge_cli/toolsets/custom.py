"""The toolset ``custom``: functions, tools and toolsets from a Python file beside the worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.offering import ModuleAdapter, ModuleTools
from forge_cli.core.signature import SchemaError
from forge_cli.core.text import did_you_mean
from forge_cli.core.tool import Source, Tool
from forge_cli.core.toolset import Toolset, ToolsetConfig
from forge_cli.files.module import LocalModule, imported_beside


class CustomConfig(ToolsetConfig):
    """``module`` is relative to the worker file; only what ``tools`` lists is offered."""

    module: str
    tools: list[str]


class CustomToolset(Toolset):
    name = "custom"
    Config = CustomConfig
    repeatable = True
    picks = True
    imports = True

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterator[Path]:
        """The module, what it imports of the files beside it, and whatever could be imported from its folder."""
        module = config.get("module") if isinstance(config, Mapping) else None
        if isinstance(module, str):
            yield from imported_beside(folder / module)
            yield (folder / module).parent / "*.py"
            yield (folder / module).parent / "*" / "__init__.py"

    async def tools(self) -> Sequence[Tool]:
        if not hasattr(self, "_tools"):
            self._tools = await self._load()
        return self._tools

    async def _load(self) -> list[Tool]:
        path = (self.env.worker_dir / self.config.module).resolve()
        if not path.is_file():
            raise WorkerError(self.config.where("module"), f"toolsets.custom.module: there is no file {path}")
        local = LocalModule.read(path)
        (offered,) = self.env.register(ModuleAdapter(local.load()), f"{path}:{local.digest}")
        module = await self.stack.enter_async_context(offered(ToolsetConfig(), self.env))
        source = Source("local", self.config.module, self.config.module)
        found: list[Tool] = []
        for index, name in enumerate(self.config.tools):
            tools = await self._tools_named(cast(ModuleTools, module), name, self.config.where("tools", index))
            found += [replace(tool, digest=local.digest, source=source) for tool in tools]
        return found

    async def _tools_named(self, offered: ModuleTools, name: str, where: Mark | None) -> Sequence[Tool]:
        file = Path(str(offered.module.__file__)).name
        if not hasattr(offered.module, name):
            hint = did_you_mean(name, offered.names, "") or None
            known = ", ".join(offered.names) or "nothing"
            raise WorkerError(where, f"{file} has no '{name}'; it offers: {known}", hint=hint)
        try:
            return await offered.tools_named(name)
        except SchemaError as error:
            raise WorkerError(where, f"{file}: {error}") from None


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [CustomToolset]
