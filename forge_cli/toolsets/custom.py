"""The toolset ``custom``: functions, tools and toolsets from a Python file beside the worker."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.offering import is_toolset, tools_from
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
        module, digest = local.load(), local.digest
        source = Source("local", self.config.module)
        found: list[Tool] = []
        for index, name in enumerate(self.config.tools):
            where = self.config.where("tools", index)
            found += [
                replace(tool, digest=digest, source=source) for tool in await self._tools_named(module, name, where)
            ]
        return found

    async def _tools_named(self, module: ModuleType, name: str, where: Mark | None) -> Sequence[Tool]:
        """What one listed name stands for: a Tool, a Toolset with its tools, or a typed function."""
        file = Path(str(module.__file__)).name
        if not hasattr(module, name):
            offered = offerable_names(module)
            hint = did_you_mean(name, offered, "") or None
            raise WorkerError(where, f"{file} has no '{name}'; it offers: {', '.join(offered) or 'nothing'}", hint=hint)
        try:
            schema = _schema_beside(module, name)
            return await tools_from(getattr(module, name), name, env=self.env, stack=self.stack, schema=schema)
        except SchemaError as error:
            raise WorkerError(where, f"{file}: {error}") from None


def _schema_beside(module: ModuleType, name: str) -> Any:
    """The schema that stands beside a function, under either of its two names."""
    found = {
        spelling: vars(module)[spelling] for spelling in (f"{name}_schema", f"{name}Schema") if spelling in vars(module)
    }
    if len(found) > 1:
        raise SchemaError(f"there are both {' and '.join(found)}; keep one")
    return next(iter(found.values()), None)


def offerable_names(module: ModuleType) -> list[str]:
    """The names in a module that could be listed under ``tools:``."""
    return sorted(
        name for name, thing in vars(module).items() if not name.startswith("_") and _offerable(thing, module)
    )


def _offerable(thing: Any, module: ModuleType) -> bool:
    if isinstance(thing, Tool):
        return True
    own = getattr(thing, "__module__", None) == module.__name__
    return own and (inspect.isfunction(thing) or is_toolset(thing))


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [CustomToolset]
