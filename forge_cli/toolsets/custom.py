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
_EXECUTABLES = (
    "a module is a Python file; for programs in other languages, use the toolset executables "
    "(see forge tools new)"
)


class CustomConfig(ToolsetConfig):
    """A Python file, and the names in it to offer as tools."""

    module: str
    """The path of a Python file, relative to the worker file."""
    tools: list[str]
    """The names in the file to offer."""


class _Loaded(Struct, frozen=True):
    """A module as it was loaded from one version of its files, and the tools that it offers."""

    tools: tuple[Tool, ...]
    digest: str
    keeps_open: bool
    """True if one of the names is a toolset, which stays open until the session ends."""


_shared: dict[tuple[str, tuple[str, ...]], _Loaded] = {}
"""Loaded modules by file and names; making the tools takes a sixth of a short session."""


class CustomToolset(Offering):
    """Tools from a Python file beside the worker."""

    name = "custom"
    Config = CustomConfig
    repeatable = True
    picks = True
    imports = True
    _loaded: _Loaded | None = None
    _tried = ""
    """The digest of the files that were loaded last, or failed to load."""
    _told = ""
    """The last warning, which is not repeated at each turn."""

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterator[Path]:
        """Yield the module, the files that it may import, and patterns for all others there."""
        module = folder / config.module
        yield from importable_beside(module)
        yield module.parent / "*.py"
        yield module.parent / "*" / "__init__.py"

    async def tools(self) -> Sequence[Tool]:
        """Return the current tools of the module; keep the old ones if an edit cannot be loaded."""
        if self._loaded is None:
            self._loaded = await self._load(self._checked(self._read()))
        else:
            await self._reload(self._loaded)
        return self._loaded.tools

    async def _reload(self, loaded: _Loaded) -> None:
        """Load the module again if its files changed; warn once about each reason for refusing."""
        try:
            local = self._read()
            if local.digest == loaded.digest:
                return
            if loaded.keeps_open:
                raise WorkerError(
                    None, "it contains an open toolset; restart the session to use the change"
                )
            # A version that failed to load is not executed again at each turn.
            if local.digest != self._tried:
                self._tried = local.digest
                self._loaded = await self._load(self._checked(local), again=True)
                self.env.notify("info", f"{self.config.module} changed and was reloaded")
        except WorkerError as error:
            sentence = f"{self.config.module} changed; its previous version stays in use: {error}"
            if sentence != self._told:
                self._told = sentence
                self.env.notify("warning", sentence)

    def _read(self) -> LocalModule:
        path = Path(os.path.realpath(self.env.worker_dir / self.config.module))
        if not path.is_file():
            problem = "is not a file" if path.exists() else "does not exist"
            raise WorkerError(
                self.config.where("module"),
                f"toolsets.custom.module: {path} {problem}",
                hint=self._hint_for(path),
            )
        return LocalModule.read(path)

    def _hint_for(self, path: Path) -> str | None:
        """Return a hint that names a Python file with a similar name, if there is one."""
        beside = sorted(each.name for each in path.parent.glob("*.py"))
        near: str | None = f"{path.stem}.py"
        if near not in beside:
            near = nearest(path.name, beside)
        if near is not None:
            folder = self.config.module.removesuffix(Path(self.config.module).name)
            return f"did you mean '{folder}{near}'?"
        return _EXECUTABLES if path.suffix in _OTHER_LANGUAGES else None

    def _checked(self, local: LocalModule) -> LocalModule:
        if self.env.check_code:
            self.env.check_code(local.sources)
        return local

    async def _load(self, local: LocalModule, *, again: bool = False) -> _Loaded:
        """Return the tools, shared by all sessions of a batch unless they include a toolset."""
        key = str(local.path), tuple(self.config.tools)
        found = _shared.get(key)
        if found is None or found.digest != local.digest:
            found = await self._find(local, again=again)
        # An open toolset belongs to one session.
        if not found.keeps_open:
            _shared[key] = found
        return found

    async def _find(self, local: LocalModule, *, again: bool) -> _Loaded:
        loaded = local.load(import_timeout())
        keeps_open = any(_keeps_open(getattr(loaded, name, None)) for name in self.config.tools)
        if again and keeps_open:
            raise WorkerError(
                None,
                "it now contains a toolset; restart the session to use the change",
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
    """Return True if a value is a toolset, or a collection that contains one at any depth."""
    if is_toolset(thing):
        return True
    if isinstance(thing, dict):
        return any(map(_keeps_open, thing.values()))
    return isinstance(thing, list | tuple) and any(map(_keeps_open, thing))


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [CustomToolset]
