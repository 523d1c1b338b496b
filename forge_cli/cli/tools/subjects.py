"""What ``forge tools test TARGET`` looks at: programs, a toolset, a tools.py, or a tool's folder somewhere else."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from forge_cli.cli.looking.looker import ThirdPartyError, look
from forge_cli.cli.opening import bare_worker, opened
from forge_cli.cli.tools.examples import LOADS, check_program
from forge_cli.cli.tools.programs import own_tools
from forge_cli.cli.tools.rows import needs_settings
from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.offering import offerable_names
from forge_cli.core.text import did_you_mean
from forge_cli.core.values import dataclass
from forge_cli.engine.gate.conformance import ConformanceCheck, examine, trial
from forge_cli.engine.plugins.host import PluginError, PluginHost
from forge_cli.engine.runtime.assemble import Assembly
from forge_cli.files.home import user_home
from forge_cli.files.module import LocalModule
from forge_cli.sandbox.names import shown
from forge_cli.toolsets.custom import CustomToolset
from forge_cli.toolsets.executables.manage import ExecutableManager, temporary_copy
from forge_cli.toolsets.executables.manifest import FILE
from forge_cli.toolsets.executables.registry import CREATE, RUN
from forge_cli.toolsets.executables.toolset import ExecutablesToolset

HOOK = "forge_impl"
"""What pluggy leaves on a function that answers a hook, and that is not a tool."""


class Subject(Protocol):
    """Tools that are looked at together."""

    async def checks(self) -> list[ConformanceCheck]: ...


def find_subject(target: str | None) -> Subject:
    """What a target means, the names of tools first; one that means nothing is a UsageError."""
    tools = own_tools()
    names, toolsets = tools.names(), [plugin.name for plugin in PluginHost().toolset_plugins()]
    if target is None or target in names:
        return Programs(tools, names if target is None else [target])
    if target in toolsets:
        return InstalledToolset(target)
    path = Path(target).resolve()
    if path.name == FILE:
        path = path.parent
    if path.is_file():
        return ToolsFile(path)
    if not path.is_dir():
        raise _unknown(target, [*names, *toolsets])
    if path.parent == tools.root.resolve():
        return Programs(tools, [path.name])
    if not (path / FILE).is_file():
        raise UsageError(f"{path} has no {FILE}", hint="give the folder of a tool, or the path of a tools.py")
    return FolderSubject(path)


def look_at_target(target: str | None) -> list[ConformanceCheck]:
    """The checks of a target; third-party code that cannot even be loaded is one that failed."""
    named = target and Path(target).is_file()
    try:
        return look(check_target, target, worker=target if named else None, calls_tools=True)
    except ThirdPartyError as error:
        return [ConformanceCheck.of(Path(str(target)).name, LOADS, str(error))]


async def check_target(target: str | None) -> list[ConformanceCheck]:
    return await find_subject(target).checks()


def _unknown(target: str, known: Sequence[str]) -> UsageError:
    path = Path(target)
    beside = [str(path.parent / name) for name in sorted(os.listdir(path.parent))] if path.parent.is_dir() else []
    listed = f"there are: {', '.join(known)}; or give the path of a tools.py or of a tool's folder"
    hint = did_you_mean(target, known, did_you_mean(str(path), beside, listed))
    return UsageError(f"there is no tool, toolset or file {shown(target)}", hint=hint)


@dataclass(frozen=True)
class Programs:
    """Tools in ``~/.forge/tools``, or in a home like it; the broken ones too."""

    tools: ExecutableManager
    names: Sequence[str]

    async def checks(self) -> list[ConformanceCheck]:
        found = {name: self.tools.look(name) for name in self.names}
        sound = [name for name, program in found.items() if not isinstance(program, str)]
        checks: list[ConformanceCheck] = []
        async with _open(ExecutablesToolset.name, {"tools": sound}, self.tools.home) as assembly:
            for name, program in found.items():
                if isinstance(program, str):
                    checks.append(ConformanceCheck.of(name, FILE, program))
                else:
                    checks += await check_program(program, self.tools, assembly)
        return checks


@dataclass(frozen=True)
class InstalledToolset:
    """A toolset by itself; the one of the programs has tools of its own as well."""

    name: str

    async def checks(self) -> list[ConformanceCheck]:
        host = PluginHost()
        try:
            _, plugin = host.toolset(self.name)
            if needs_settings(host, plugin):
                raise self._needs_settings()
            if self.name == ExecutablesToolset.name:
                own = await _check_tools(self.name, {"tools": [CREATE, RUN]})
                tools = own_tools()
                return [*own, *await Programs(tools, tools.names()).checks()]
            return await _check_tools(self.name, {})
        except PluginError as error:
            return [ConformanceCheck.of(self.name, LOADS, str(error))]

    def _needs_settings(self) -> UsageError:
        own = self.name == CustomToolset.name
        hint = "give the path of its tools.py" if own else "call its tools by forge tools call NAME --worker WORKER"
        return UsageError(f"the toolset '{self.name}' has no tools without settings, which a worker gives", hint=hint)


@dataclass(frozen=True)
class ToolsFile:
    """Every name in a tools.py that a worker could list under ``tools:``."""

    path: Path

    async def checks(self) -> list[ConformanceCheck]:
        try:
            names = self._names()
        except ForgeError as error:
            return [ConformanceCheck.of(self.path.name, LOADS, str(error))]
        if not names:
            return [
                ConformanceCheck.of(self.path.name, LOADS, "it offers no tools: no typed function, no Tool, no Toolset")
            ]
        checks = await self._check_tools(names)
        if all(check.check != LOADS for check in checks):
            return checks
        return [check for name in names for check in await self._check_tools([name], name)]

    def _names(self) -> list[str]:
        module = LocalModule.read(self.path).load()
        return offerable_names(module)

    async def _check_tools(self, names: list[str], called: str | None = None) -> list[ConformanceCheck]:
        return await _check_tools(CustomToolset.name, {"module": str(self.path), "tools": names}, called)


@dataclass(frozen=True)
class FolderSubject:
    """A tool that lies somewhere else: looked at as it would be in ``~/.forge/tools``."""

    path: Path

    async def checks(self) -> list[ConformanceCheck]:
        with temporary_copy(self.path) as tools:
            checks = await Programs(tools, [self.path.name]).checks()
        copy = str(tools.root / self.path.name)
        return [replace(check, detail=check.detail.replace(copy, str(self.path))) for check in checks]


async def _check_tools(
    toolset: str, section: Mapping[str, object], called: str | None = None
) -> list[ConformanceCheck]:
    """What is offered with these settings, each tool looked at, and tried where that does no harm."""
    try:
        async with _open(toolset, section) as assembly:
            tools = [offer.tool for offer in assembly.toolbox.offers.values()]
            return [check for tool in tools for check in [*examine(tool), *await trial(tool, assembly.guard)]]
    except ForgeError as error:
        return [ConformanceCheck.of(called or toolset, LOADS, str(error))]


@asynccontextmanager
async def _open(toolset: str, section: Mapping[str, object], home: Path | None = None) -> AsyncIterator[Assembly]:
    """A worker with one toolset; whoever typed the command approves what it asks for, and what is blocked stays so."""
    here = Path.cwd()
    unfit = any(here == place.resolve() for place in (Path("/"), user_home()))
    worker = bare_worker({toolset: section}, {"zones": []} if unfit else None)
    async with opened(worker, workspace=here, mode=ApprovalMode.APPROVE_ALL, home=home) as assembly:
        yield assembly
