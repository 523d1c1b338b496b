"""The toolset ``custom``: functions, tools and toolsets from a Python file beside the worker."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.abc import InspectLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.hookspecs import hookimpl
from forge_cli.core.offering import is_toolset, tools_from
from forge_cli.core.signature import SchemaError
from forge_cli.core.text import did_you_mean
from forge_cli.core.tool import Source, Tool, digest_of
from forge_cli.core.toolset import Toolset, ToolsetConfig
from forge_cli.core.wire import error_text


class CustomConfig(ToolsetConfig):
    """``module`` is relative to the worker file; only what ``tools`` lists is offered."""

    module: str
    tools: list[str]


class CustomToolset(Toolset):
    name = "custom"
    Config = CustomConfig
    picks = True

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterator[Path]:
        module = config.get("module") if isinstance(config, Mapping) else None
        if isinstance(module, str):
            yield folder / module

    async def tools(self) -> Sequence[Tool]:
        if not hasattr(self, "_tools"):
            self._tools = await self._load()
        return self._tools

    async def _load(self) -> list[Tool]:
        path = (self.env.worker_dir / self.config.module).resolve()
        if not path.is_file():
            raise WorkerError(self.config.where("module"), f"toolsets.custom.module: there is no file {path}")
        content = path.read_bytes()
        digest = digest_of(content)
        module = load_module(path, content, digest)
        source = Source("local", self.config.module)
        found: list[Tool] = []
        for index, name in enumerate(self.config.tools):
            where = self.config.where("tools", index)
            found += [replace(tool, digest=digest, source=source) for tool in await self._offered(module, name, where)]
        return found

    async def _offered(self, module: ModuleType, name: str, where: Mark | None) -> Sequence[Tool]:
        """What one listed name stands for: a Tool, a Toolset with its tools, or a typed function."""
        file = Path(str(module.__file__)).name
        if not hasattr(module, name):
            offered = offers_of(module)
            hint = did_you_mean(name, offered, "") or None
            raise WorkerError(where, f"{file} has no '{name}'; it offers: {', '.join(offered) or 'nothing'}", hint=hint)
        schema = getattr(module, f"{name}_schema", None)
        try:
            return await tools_from(getattr(module, name), name, env=self.env, stack=self.stack, schema=schema)
        except SchemaError as error:
            raise WorkerError(where, f"{file}: {error}") from None


def offers_of(module: ModuleType) -> list[str]:
    """The names in a module that could be listed under ``tools:``."""
    return sorted(
        name for name, thing in vars(module).items() if not name.startswith("_") and _offerable(thing, module)
    )


def _offerable(thing: Any, module: ModuleType) -> bool:
    if isinstance(thing, Tool):
        return True
    own = getattr(thing, "__module__", None) == module.__name__
    return own and (inspect.isfunction(thing) or is_toolset(thing))


class _Content(InspectLoader):
    """Loads the very bytes that the digest is of; a .pyc in a cache may be older than the file beside it."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path = path
        self.content = content

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.content)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.content, str(self.path))


def load_module(path: Path, content: bytes, digest: str) -> ModuleType:
    """Import a file under a name of its own; modules beside it can be imported from it, after everything installed."""
    name, loader = f"forge_worker_tools_{digest[:16]}", _Content(path, content)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader) if path.suffix == ".py" else None
    if spec is None:
        raise WorkerError(Mark(str(path)), "this is no Python file; a module of tools ends in .py")
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:  # foreign code: whatever happens while it is imported
        del sys.modules[name]
        raise WorkerError(_blame(error, path), f"cannot be imported: {error_text(error)}") from error
    return module


def _blame(error: BaseException, path: Path) -> Mark:
    """The line of the file at which its import failed."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return Mark(str(path), error.lineno or 1, error.offset or 1)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return Mark(str(path), (lines[-1] if lines else None) or 1)


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    return [CustomToolset]
