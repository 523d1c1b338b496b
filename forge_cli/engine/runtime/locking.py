"""Making a lock file: open the worker and its children without a model, or list them for pip."""

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
    """Raised if a server is unavailable, so that its tools cannot be locked."""

    exit_code = ExitCode.PROVIDER


def lockable(path: str) -> Worker:
    """Return the worker at a path; raise UsageError if it cannot have a lock of its own."""
    worker = load_worker(path)
    if worker.path.resolve().is_relative_to(SHIPPED.resolve()):
        hint = f"copy it first: cp {worker.path} ."
        problem = f"{worker.name} comes with forge, and is locked by forge's own version"
        raise UsageError(problem, hint=hint)
    return worker


async def make_entries(
    worker: Worker, workspace: Path, bus: EventBus, *, allow_floating: bool
) -> list[LockEntry]:
    """Return all parts of a worker; this imports its code and starts its servers."""
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
        problem = f"the versions of these servers are not pinned:{lines}"
        hint = f"write {fixed}; or lock their current tools with --allow-floating"
        raise UsageError(problem, hint=hint)


async def _offered(parts: WorkerParts, worker: Worker, assembly: Assembly) -> list[LockEntry]:
    _check_servers(assembly.toolbox)
    return await offered_parts(parts, worker, assembly.toolbox)


def _check_servers(toolbox: Toolbox) -> None:
    for each in toolbox.toolsets:
        for server in getattr(each.toolset, "connections", ()):
            if not server.connected:
                problem = f"MCP server {server.name} is unavailable: {visible(server.why_not)}"
                raise ServerUnseen(problem, hint="a lock lists the tools of a server; start it")


def pip_lines(worker: Worker, workspace: Path) -> list[str]:
    """Return a line for each locked package, with hashes from the index that pip uses."""
    parts = WorkerParts(worker, workspace.resolve(), forge_home())
    packages = [each for each in parts.code() if each.version]
    lines = _lines(sorted(packages, key=lambda each: each.name)) if packages else []
    return [HEAD, *lines]


def _lines(packages: Sequence[LockEntry]) -> list[str]:
    wanted = [f"{each.name}=={each.version}" for each in packages]
    manager = package_manager()
    # pip prints hashes only in the report of an installation; uv has a command for them.
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
        problem = f"the index does not have what is installed here:\n{told}"
        raise ForgeError(problem, hint="publish it there first")
    return done.stdout


def _read_report(text: str, packages: Sequence[LockEntry]) -> list[str]:
    found: dict[str, dict[str, str]] = {}
    for each in json.loads(text)["install"]:
        archive = each["download_info"].get("archive_info", {})
        found[canonical(each["metadata"]["name"])] = archive.get("hashes", {})
    for each in packages:
        if "sha256" not in found.get(each.name, {}):
            problem = f"pip reports no hash for {each.name} {each.version}"
            raise ForgeError(problem, hint="install it from an archive")
    # Only the archive for this platform has a hash here.
    return [
        f"{each.name}=={each.version} --hash=sha256:{found[each.name]['sha256']}"
        for each in packages
    ]
