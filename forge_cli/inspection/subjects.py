"""The targets of ``forge tools test TARGET``: tools, toolsets, workers and files."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from msgspec.structs import replace

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bus import new_id
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ForgeError, ToolError, UsageError
from forge_cli.core.processes import Finished
from forge_cli.core.text import cut, did_you_mean
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.plugins.host import PluginError, PluginHost
from forge_cli.engine.runtime.wiring import Assembly
from forge_cli.engine.runtime.without_model import bare_worker, opened
from forge_cli.files.home import forge_home, user_home
from forge_cli.files.lookup import SUFFIXES, named_workers
from forge_cli.files.module import LocalModule
from forge_cli.files.settings_files import import_timeout
from forge_cli.files.worker import load_worker
from forge_cli.inspection.conformance import ConformanceCheck, check_tools, examine
from forge_cli.inspection.tool_rows import needed_settings
from forge_cli.sandbox.names import shown
from forge_cli.schema.json import problems
from forge_cli.schema.unfit import offerable_names
from forge_cli.toolsets.custom import CustomToolset
from forge_cli.toolsets.executables.manage import ExecutableManager, temporary_copy
from forge_cli.toolsets.executables.manifest import FILE, Example, ExampleExpectation
from forge_cli.toolsets.executables.registry import CREATE, RUN, Program
from forge_cli.toolsets.executables.toolset import ExecutablesToolset

WORKER_FILE = "worker.yaml"
LOADS = "loads"
MAX_OUTPUT = 400


async def check_target(target: str | None, worker: str | None) -> list[ConformanceCheck]:
    """Check the tool, toolset, worker or path that ``target`` names; tools are looked up first.

    Raises a UsageError if nothing has that name.
    """
    tools = ExecutableManager(forge_home())
    if worker is not None:
        return await _check_worker(Path(worker), target)
    names = tools.names()
    toolsets = [plugin.name for plugin in PluginHost().toolset_plugins()]
    if target is None or target in names:
        return await _check_programs(tools, names if target is None else [target])
    if target in toolsets:
        return await _check_toolset(target)
    path = _path_of(target, [*names, *toolsets])
    if path.is_file():
        if path.suffix in SUFFIXES:
            return await _check_worker(path)
        return await _check_tools_file(path)
    if path.parent == tools.root.resolve():
        return await _check_programs(tools, [path.name])
    if (path / FILE).is_file():
        return await _check_folder(path)
    if not (path / WORKER_FILE).is_file():
        hint = "give the folder of a tool or of a worker, or the path of a tools.py"
        raise UsageError(f"{path} has neither {FILE} nor {WORKER_FILE}", hint=hint)
    return await _check_worker(path)


def _path_of(target: str, known: Sequence[str]) -> Path:
    path = Path(target).resolve()
    if not os.path.isfile(path) and not os.path.isdir(path):
        raise _unknown(target, [*known, *worker_names()])
    # a folder has to be entered, but need not be listed
    if not os.access(path, os.R_OK if os.path.isfile(path) else os.X_OK):
        raise UsageError(f"{path}: you may not read this", hint="check its owner and mode")
    return path.parent if path.name == FILE else path


def worker_names() -> list[str]:
    """Return the names of workers that can be used here."""
    return list(dict.fromkeys(worker.name for worker in named_workers(Path.cwd(), forge_home())))


def is_known(target: str) -> bool:
    """Return True for a tool, a toolset or a path; these take precedence over worker names."""
    toolsets = [plugin.name for plugin in PluginHost().toolset_plugins()]
    return (
        target in ExecutableManager(forge_home()).names()
        or target in toolsets
        or os.path.exists(target)
    )


def _unknown(target: str, known: Sequence[str]) -> UsageError:
    path = Path(target)
    if os.access(path.parent, os.R_OK):
        beside = [str(path.parent / name) for name in sorted(os.listdir(path.parent))]
    else:
        beside = []
    listed = f"there are: {', '.join(known)}; or give the path of a tools.py or of a tool's folder"
    hint = did_you_mean(target, known, did_you_mean(str(path), beside, listed))
    return UsageError(f"there is no tool, toolset, worker or file {shown(target)}", hint=hint)


async def _check_programs(tools: ExecutableManager, names: Sequence[str]) -> list[ConformanceCheck]:
    """Check tools in ``~/.forge/tools``, or in another home; invalid ones fail."""
    found = {name: tools.look(name) for name in names}
    sound = [name for name, program in found.items() if not isinstance(program, str)]
    checks: list[ConformanceCheck] = []
    async with _open(ExecutablesToolset.name, {"tools": sound}, tools.home) as assembly:
        for name, program in found.items():
            if isinstance(program, str):
                checks.append(ConformanceCheck.of(name, FILE, program))
            else:
                checks += await check_program(program, tools, assembly)
    return checks


async def _check_toolset(name: str) -> list[ConformanceCheck]:
    """Check a toolset by itself; for the executables, check each of them."""
    host = PluginHost()
    try:
        _, plugin = host.toolset(name)
        if needed_settings(host, plugin):
            hint = "give --worker WORKER"
            if name == CustomToolset.name:
                hint = "give the path of its tools.py, or --worker WORKER"
            raise UsageError(
                f"the toolset '{name}' has no tools without settings from a worker",
                hint=hint,
            )
        with TemporaryDirectory(prefix="forge-look-") as folder:
            if name != ExecutablesToolset.name:
                return await _check_tools(name, {}, folder=Path(folder))
            own = await _check_tools(name, {"tools": [CREATE, RUN]}, folder=Path(folder))
            tools = ExecutableManager(forge_home())
            return [*own, *await _check_programs(tools, tools.names())]
    except PluginError as error:
        return [ConformanceCheck.of(name, LOADS, str(error))]


async def _check_worker(path: Path, toolset: str | None = None) -> list[ConformanceCheck]:
    """Check the tools of a worker, or of one of its toolsets, with its settings and policy."""
    try:
        worker = load_worker(path)
        here = Path.cwd()
        async with opened(
            worker, workspace=here, mode=ApprovalMode.APPROVE_ALL, make_zones=False
        ) as assembly:
            names = [each.name for each in assembly.toolbox.toolsets]
            if toolset is not None and toolset not in names:
                hint = did_you_mean(toolset, names, f"it has: {', '.join(names) or 'none'}")
                raise UsageError(f"{worker.name} has no toolset {shown(toolset)}", hint=hint)
            return await _check_offers(assembly, toolset)
    except UsageError:
        raise
    except ForgeError as error:
        return [ConformanceCheck.of(path.name, LOADS, str(error))]


async def _check_tools_file(path: Path) -> list[ConformanceCheck]:
    """Check the functions of a tools.py; one by one if the file does not load as a whole."""
    try:
        names = offerable_names(LocalModule.read(path).load(import_timeout()))
    except ForgeError as error:
        return [ConformanceCheck.of(path.name, LOADS, str(error))]
    if not names:
        return [
            ConformanceCheck.of(
                path.name, LOADS, "no tools: no typed function, no Tool, no Toolset"
            )
        ]
    section = {"module": str(path), "tools": names}
    checks = await _check_tools(CustomToolset.name, section)
    if all(check.check != LOADS for check in checks):
        return checks
    checks = []
    for name in names:
        checks += await _check_tools(CustomToolset.name, {**section, "tools": [name]}, name)
    return checks


async def _check_folder(path: Path) -> list[ConformanceCheck]:
    """Check a tool outside of ``~/.forge/tools`` as if it were there."""
    with temporary_copy(path) as tools:
        checks = await _check_programs(tools, [path.name])
    copy = str(tools.root / path.name)
    return [replace(check, detail=check.detail.replace(copy, str(path))) for check in checks]


async def _check_tools(
    toolset: str,
    section: Mapping[str, object],
    called: str | None = None,
    folder: Path | None = None,
) -> list[ConformanceCheck]:
    """Check each tool that a toolset offers with these settings."""
    try:
        async with _open(toolset, section, folder=folder) as assembly:
            return await _check_offers(assembly)
    except ForgeError as error:
        return [ConformanceCheck.of(called or toolset, LOADS, str(error))]


async def _check_offers(assembly: Assembly, toolset: str | None = None) -> list[ConformanceCheck]:
    offers = [
        offer for offer in assembly.toolbox.offers.values() if toolset in (None, offer.toolset)
    ]
    tools = [offer.tool for offer in offers]
    return await check_tools(tools, assembly.guard)


@asynccontextmanager
async def _open(
    toolset: str,
    section: Mapping[str, object],
    home: Path | None = None,
    folder: Path | None = None,
) -> AsyncIterator[Assembly]:
    """Open a worker with one toolset, which approves what asks; blocked calls stay blocked."""
    here = folder or Path.cwd()
    # neither / nor the home may be a zone
    unfit = any(here == place.resolve() for place in (Path("/"), user_home()))
    worker = bare_worker({toolset: section}, {"zones": []} if unfit else None)
    async with opened(worker, workspace=here, mode=ApprovalMode.APPROVE_ALL, home=home) as assembly:
        yield assembly


async def check_program(
    program: Program, tools: ExecutableManager, assembly: Assembly
) -> list[ConformanceCheck]:
    """Examine an executable, build it, and run its examples through the gate."""
    offer = assembly.toolbox.offers.get(program.name)
    if offer is None:
        return [ConformanceCheck.of(program.name, LOADS, "it changed during the test; try again")]
    checks = examine(dataclasses.replace(offer.tool, timeout=program.manifest.timeout))
    try:
        checks.append(ConformanceCheck(program.name, "build", True, await tools.build(program)))
    except ToolError as error:
        return [*checks, ConformanceCheck.of(program.name, "build", str(error))]
    for number, example in enumerate(program.manifest.examples, 1):
        problem = await _problem(program, example, assembly)
        problems_found = [problem] if problem else []
        checks.append(ConformanceCheck.of(program.name, f"example {number}", *problems_found))
    return checks


async def _problem(program: Program, example: Example, assembly: Assembly) -> str | None:
    [toolset] = (each.toolset for each in assembly.toolbox.toolsets)
    programs = cast(ExecutablesToolset, toolset)  # the only one that _check_programs opens
    call = ToolCall(new_id("call"), program.name, example.arguments)
    with programs.observed() as runs:
        outcome = await assembly.guard.call(call, Caller.OPERATOR)
    done = runs[-1] if runs else None
    if done:
        differences = list(_differences(example.expect, done))
    else:
        differences = [outcome.error or outcome.status]
    if not differences:
        return None
    given = ""
    if example.arguments:
        # default=str, because YAML also has dates
        text = json.dumps(example.arguments, ensure_ascii=False, default=str)
        given = f"with {cut(text, MAX_OUTPUT)}: "
    said = _quote_output(done) if done else ""
    return f"{given}{', and '.join(differences)}{said}"


def _differences(expected: ExampleExpectation, done: Finished) -> Iterator[str]:
    if done.timed_out:
        yield f"stopped after {done.duration_ms / 1000:.1f} seconds"
    elif done.exit_code != expected.exit:
        if done.exit_code is not None:
            ended = f"exit code {done.exit_code}"
        else:
            ended = f"ended by signal {done.signal}"
        yield f"{ended} instead of {expected.exit}"
    if expected.stdout_contains is not None and expected.stdout_contains not in done.stdout:
        yield f"stdout does not contain {problems.shown(expected.stdout_contains)}"


def _quote_output(done: Finished) -> str:
    quoted = ""
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if text.strip():
            quoted += f"\n{name}: {cut(text.strip(), MAX_OUTPUT)}"
    return quoted
