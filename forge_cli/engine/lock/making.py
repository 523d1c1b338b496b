"""Making a lock: the worker and its children are opened as a session would do it, without a model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.locking import LockEntry
from forge_cli.core.text import visible
from forge_cli.engine.gate.toolbox import Toolbox
from forge_cli.engine.lock.gather import WorkerParts, offered_parts
from forge_cli.engine.runtime.assemble import Assembly
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SHIPPED
from forge_cli.files.worker import Worker, load_worker


class ServerUnseen(ForgeError):
    """A server is not there, so that its offer cannot be looked at."""

    exit_code = ExitCode.PROVIDER


def lockable(path: str) -> Worker:
    """The worker at a path, if it can have a lock of its own."""
    worker = load_worker(path)
    if worker.path.resolve().is_relative_to(SHIPPED.resolve()):
        hint = f"copy it first: cp {worker.path} ."
        raise UsageError(f"{worker.name} comes with forge, and is locked by forge's own version", hint=hint)
    return worker


async def make_entries(worker: Worker, workspace: Path, bus: EventBus, *, allow_floating: bool) -> list[LockEntry]:
    """Everything that a worker consists of now; its code is imported and its servers are started for that."""
    parts = WorkerParts(worker, workspace, forge_home())
    found = [*parts.code(), *parts.declared()]
    if not allow_floating:
        _refuse_floating(found)
    async with opened(worker, workspace=workspace, bus=bus, make_zones=False) as root:
        found += await _offered(parts, worker, root)
        for child in parts.workers[1:]:
            async with opened(child, workspace=workspace, bus=bus, make_zones=False, parent=root) as assembly:
                found += await _offered(parts, child, assembly)
    return found


def _refuse_floating(entries: Iterable[LockEntry]) -> None:
    floating = sorted((each for each in entries if each.floating), key=lambda each: each.name)
    if floating:
        lines = "".join(f"\n  {visible(each.name)}: {visible(each.origin)}" for each in floating)
        fixed = "; ".join(visible(each.floating) for each in floating)
        problem = f"nothing says which version of these servers is started:{lines}"
        raise UsageError(problem, hint=f"write {fixed}; or lock what they offer now, with --allow-floating")


async def _offered(parts: WorkerParts, worker: Worker, assembly: Assembly) -> list[LockEntry]:
    _check_servers(assembly.toolbox)
    return await offered_parts(parts, worker, assembly.toolbox)


def _check_servers(toolbox: Toolbox) -> None:
    for each in toolbox.toolsets:
        for server in getattr(each.toolset, "connections", ()):
            if not server.connected:
                problem = f"the MCP server {server.name} is not there: {visible(server.why_not)}"
                raise ServerUnseen(problem, hint="a lock names what a server offers; it has to be asked for that")
