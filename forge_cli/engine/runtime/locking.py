"""Making a lock: the worker and its children are opened as a session would do it, without a model; or lines for pip."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.locking import LockEntry
from forge_cli.core.source import canonical
from forge_cli.core.text import visible
from forge_cli.engine.gate.toolbox import Toolbox
from forge_cli.engine.lock.gather import WorkerParts, offered_parts
from forge_cli.engine.plugins.distributions import package_manager
from forge_cli.engine.runtime.wiring import Assembly
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SHIPPED
from forge_cli.files.worker import Worker, load_worker

HEAD = "# pip install --require-hashes --no-deps -r THIS"


class ServerUnseen(ForgeError):
    """A server is not there, so that its offer cannot be looked at."""

    exit_code = ExitCode.PROVIDER


def lockable(path: str) -> Worker:
    """The worker at a path, if it can have a lock of its own."""
    worker = load_worker(path)
    if worker.path.resolve().is_relative_to(SHIPPED.resolve()):
        hint = f"copy it first: cp {worker.path} ."
        raise UsageError(
            f"{worker.name} comes with forge, and is locked by forge's own version", hint=hint
        )
    return worker


async def make_entries(
    worker: Worker, workspace: Path, bus: EventBus, *, allow_floating: bool
) -> list[LockEntry]:
    """Everything that a worker consists of now; its code is imported and its servers are started for that."""
    parts = WorkerParts(worker, workspace, forge_home())
    found = [*parts.code(), *parts.declared()]
    if not allow_floating:
        _refuse_floating(found)
    async with opened(worker, workspace=workspace, bus=bus, make_zones=False) as root:
        found += await _offered(parts, worker, root)
        for child in parts.workers[1:]:
            async with opened(
                child, workspace=workspace, bus=bus, make_zones=False, parent=root
            ) as assembly:
                found += await _offered(parts, child, assembly)
    return found


def _refuse_floating(entries: Iterable[LockEntry]) -> None:
    floating = sorted((each for each in entries if each.floating), key=lambda each: each.name)
    if floating:
        lines = "".join(f"\n  {visible(each.name)}: {visible(each.origin)}" for each in floating)
        fixed = "; ".join(visible(each.floating) for each in floating)
        problem = f"nothing says which version of these servers is started:{lines}"
        raise UsageError(
            problem, hint=f"write {fixed}; or lock what they offer now, with --allow-floating"
        )


async def _offered(parts: WorkerParts, worker: Worker, assembly: Assembly) -> list[LockEntry]:
    _check_servers(assembly.toolbox)
    return await offered_parts(parts, worker, assembly.toolbox)


def _check_servers(toolbox: Toolbox) -> None:
    for each in toolbox.toolsets:
        for server in getattr(each.toolset, "connections", ()):
            if not server.connected:
                problem = f"the MCP server {server.name} is not there: {visible(server.why_not)}"
                raise ServerUnseen(
                    problem, hint="a lock names what a server offers; it has to be asked for that"
                )


def pip_lines(worker: Worker, workspace: Path) -> list[str]:
    """A line for each package that the lock names; the index that pip uses is asked for the hashes."""
    packages = [
        each
        for each in WorkerParts(worker, workspace.resolve(), forge_home()).code()
        if each.version
    ]
    lines = _lines(sorted(packages, key=lambda each: each.name)) if packages else []
    return [HEAD, *lines]


def _lines(packages: Sequence[LockEntry]) -> list[str]:
    wanted = [f"{each.name}=={each.version}" for each in packages]
    manager = package_manager()
    if manager[-2:] == ["-m", "pip"]:
        options = ["--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--report", "-"]
        report = _run([*manager, "install", "--disable-pip-version-check", *options, *wanted], "")
        return _read_report(report, packages)
    options = [
        "--generate-hashes",
        "--no-deps",
        "--no-header",
        "--no-annotate",
        "--python",
        sys.executable,
        "-",
    ]
    return _run([*manager, "compile", "--quiet", *options], "\n".join(wanted)).splitlines()


def _run(argv: Sequence[str], given: str) -> str:
    try:
        done = subprocess.run(argv, input=given, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ForgeError(f"{argv[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        told = "\n".join(visible(line) for line in done.stderr.strip().splitlines()[-3:])
        raise ForgeError(
            f"the index does not have what is installed here:\n{told}",
            hint="publish it there first",
        )
    return done.stdout


def _read_report(text: str, packages: Sequence[LockEntry]) -> list[str]:
    found = {
        canonical(each["metadata"]["name"]): each["download_info"]
        .get("archive_info", {})
        .get("hashes", {})
        for each in json.loads(text)["install"]
    }
    for each in packages:
        if "sha256" not in found.get(each.name, {}):
            raise ForgeError(
                f"pip says no hash of {each.name} {each.version}", hint="install it from an archive"
            )
    return [
        f"{each.name}=={each.version} --hash=sha256:{found[each.name]['sha256']}"
        for each in packages
    ]
