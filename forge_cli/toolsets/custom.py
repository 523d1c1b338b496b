"""The toolset ``custom``: functions, tools and toolsets from a Python file beside the worker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from forge_cli.core.errors import Mark, SchemaError, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.source import Source
from forge_cli.core.text import did_you_mean, nearest
from forge_cli.files.module import LocalModule
from forge_cli.files.settings_files import import_timeout
from forge_cli.files.sources import importable_beside
from forge_cli.schema.offering import ModuleAdapter, ModuleTools, Offering
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, is_toolset

_OTHER_LANGUAGES = frozenset(
    {".ts", ".mts", ".tsx", ".js", ".mjs", ".cjs", ".jsx", ".go", ".rs", ".rb", ".sh"}
)
_EXECUTABLES = "a module is a Python file; programs in other languages are tools as executables (see forge tools new)"


class CustomConfig(ToolsetConfig):
    """``module`` is relative to the worker file; only what ``tools`` lists is offered."""

    module: str
    """A Python file, from the worker file."""
    tools: list[str]
    """The names in it that are offered."""


class _Loaded(Struct, frozen=True):
    """A module at one state of its files, and the tools that the worker wants of it."""

    tools: tuple[Tool, ...]
    digest: str
    keeps_open: bool
    """Does one of its names stand for a toolset, which is closed only with the session?"""


_shared: dict[tuple[str, tuple[str, ...]], _Loaded] = {}
"""By file and names: to make the tools takes a sixth of the time of a short session."""


class CustomToolset(Offering):
    name = "custom"
    Config = CustomConfig
    repeatable = True
    picks = True
    imports = True
    _loaded: _Loaded | None = None
    _tried = ""
    """The digest of what was last loaded again, or was to be."""
    _told = ""

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterator[Path]:
        """The module, what it imports of the files beside it or would if it were there, and all others there."""
        module = folder / config.module
        yield from importable_beside(module)
        yield module.parent / "*.py"
        yield module.parent / "*" / "__init__.py"

    async def tools(self) -> Sequence[Tool]:
        """The tools of the module as it is now; an edit that cannot be loaded leaves those that there were."""
        if self._loaded is None:
            self._loaded = await self._load(self._checked(self._read()))
        else:
            await self._reload(self._loaded)
        return self._loaded.tools

    async def _reload(self, loaded: _Loaded) -> None:
        """Load what is there now, unless it is what is loaded; why it is refused is said once."""
        try:
            local = self._read()
            if local.digest == loaded.digest:
                return
            if loaded.keeps_open:
                raise WorkerError(
                    None, "a toolset in it is open; the change counts from the next session on"
                )
            if local.digest != self._tried:
                self._tried = local.digest
                self._loaded = await self._load(self._checked(local), again=True)
                self.env.notify("info", f"{self.config.module} has changed and was loaded again")
        except WorkerError as error:
            sentence = (
                f"{self.config.module} has changed, and what was loaded before stays: {error}"
            )
            if sentence != self._told:
                self._told = sentence
                self.env.notify("warning", sentence)

    def _read(self) -> LocalModule:
        path = Path(os.path.realpath(self.env.worker_dir / self.config.module))
        if not path.is_file():
            problem = f"toolsets.custom.module: there is no file {path}"
            raise WorkerError(self.config.where("module"), problem, hint=self._meant(path))
        return LocalModule.read(path)

    def _meant(self, path: Path) -> str | None:
        """A Python file beside the one that is named, where one has its name or nearly so."""
        beside = sorted(each.name for each in path.parent.glob("*.py"))
        near = f"{path.stem}.py" if f"{path.stem}.py" in beside else nearest(path.name, beside)
        if near is not None:
            folder = self.config.module.removesuffix(Path(self.config.module).name)
            return f"did you mean '{folder}{near}'?"
        return _EXECUTABLES if path.suffix in _OTHER_LANGUAGES else None

    def _checked(self, local: LocalModule) -> LocalModule:
        if self.env.check_code:
            self.env.check_code(local.sources)
        return local

    async def _load(self, local: LocalModule, *, again: bool = False) -> _Loaded:
        """The tools, found once for all sessions of a batch; each session has toolsets of its own."""
        key = str(local.path), tuple(self.config.tools)
        known = _shared.get(key)
        found = (
            known
            if known and known.digest == local.digest
            else await self._find(local, again=again)
        )
        if not found.keeps_open:
            _shared[key] = found
        return found

    async def _find(self, local: LocalModule, *, again: bool) -> _Loaded:
        loaded = local.load(import_timeout())
        keeps_open = any(_keeps_open(getattr(loaded, name, None)) for name in self.config.tools)
        if again and keeps_open:
            raise WorkerError(
                None,
                "a toolset in it cannot be opened now; the change counts from the next session on",
            )
        (offered,) = self.env.register(ModuleAdapter(loaded), f"{local.path}:{local.digest}")
        module = await self.open(offered(ToolsetConfig.empty(), self.env))
        source = Source("local", self.config.module, self.config.module)
        found: list[Tool] = []
        for index, name in enumerate(self.config.tools):
            tools = await self._tools_named(
                cast(ModuleTools, module), name, self.config.where("tools", index)
            )
            found += [replace(tool, digest=local.digest, source=source) for tool in tools]
        return _Loaded(tuple(found), local.digest, keeps_open)

    async def _tools_named(
        self, offered: ModuleTools, name: str, where: Mark | None
    ) -> Sequence[Tool]:
        file = Path(str(offered.module.__file__)).name
        if not hasattr(offered.module, name):
            hint = did_you_mean(name, offered.names, "") or None
            known = ", ".join(offered.names) or "nothing"
            raise WorkerError(where, f"{file} has no '{name}'; it offers: {known}", hint=hint)
        try:
            return await offered.tools_named(name)
        except SchemaError as error:
            raise WorkerError(where, f"{file}: {error}") from None


def _keeps_open(thing: Any) -> bool:
    """Return True if there is a toolset in it, however deep."""
    if is_toolset(thing):
        return True
    if isinstance(thing, dict):
        return any(map(_keeps_open, thing.values()))
    return isinstance(thing, list | tuple) and any(map(_keeps_open, thing))


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [CustomToolset]
