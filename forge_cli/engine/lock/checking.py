"""A session that keeps to the lock of its worker: files before they are imported, tools before a model reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.locking import LockEntry, LockError
from forge_cli.core.notify import Notify
from forge_cli.core.text import visible
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.toolbox import OpenToolset, Toolbox
from forge_cli.engine.lock.gather import PROJECT, WorkerParts, offered_parts, tool_entry
from forge_cli.engine.lock.lockfile import Difference, differences, lock_file, read_lock
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.assemble import PYTHON
from forge_cli.files.sources import Sources
from forge_cli.files.worker import Worker


class LockDiffers(LockError):
    """A worker is not what its lock says; the message has every difference that was found so far."""

    def __init__(self, file: Path, found: Sequence[Difference], worker: Worker) -> None:
        lines = "".join(f"\n  {each}" for each in found)
        hint = f"review that, then: forge lock {os.path.relpath(worker.path)} --update"
        super().__init__(Mark(str(file)), f"the worker is not what was locked{lines}", hint=hint)
        self.worker = worker
        self.told = [str(each) for each in found]


@dataclass(frozen=True)
class SessionLock:
    """The lock that a session keeps to, for a worker and its children."""

    file: Path
    parts: WorkerParts
    entries: tuple[LockEntry, ...]

    def check_files(self, host: PluginHost) -> None:
        """Compare all that is there before anything is opened; what toolsets declare comes once their code fits."""
        self._compare(self.parts.code(), _is_code)
        host.check_code = self.check_code
        self._compare(self.parts.declared(), lambda entry: not _is_code(entry) and not _is_offered(entry))

    def check_code(self, sources: Sources) -> None:
        """Refuse files other than those of the lock: it is called with the very bytes that are going to be imported."""
        for path, content in sources.hashes.items():
            name = self.parts.module_name(path)
            then = self.by_name.get(("modules", name))
            if then is None or then.sha256 != content:
                now = LockEntry("modules", name, then.origin if then else "it is imported now", content)
                raise LockDiffers(self.file, [Difference(then, now)], self.parts.worker)

    def check_child(self, worker: Worker) -> None:
        """Refuse a child that was read after the check, and is another one now."""
        now = self.parts.worker_entry(worker)
        then = self.by_name.get((now.section, now.name))
        if then != now:
            raise LockDiffers(self.file, [Difference(then, now)], self.parts.worker)

    async def check_tools(self, worker: Worker, toolbox: Toolbox, notify: Notify) -> None:
        """Compare what the open toolsets of a worker offer; from then on nothing else is let in.

        Of a server that is not there nothing is known: what it offers later is let in as far as it fits.
        """
        label, found = self.parts.label(worker), await offered_parts(self.parts, worker, toolbox)
        connected = {_server(each) for each in found if each.section == "mcp"}
        servers = {each.name for each in self.entries if each.section == "mcp" and not _is_offered(each)}
        absent = {name for name in servers - connected if _is_of(name, label)}

        def counts(entry: LockEntry) -> bool:
            if not _is_offered(entry) or not _is_of(entry.name, label):
                return False
            if absent and entry.section == "tools" and entry.origin == "mcp":  # also those that read resources
                return entry.name.startswith(tuple(f"{name}__" for name in connected))
            return _server(entry) not in absent

        self._compare(filter(counts, found), counts)
        toolbox.admit = _Admission(self, label, notify)

    def _compare(self, now: Iterable[LockEntry], counts: Callable[[LockEntry], bool]) -> None:
        if found := differences(filter(counts, self.entries), now):
            raise LockDiffers(self.file, found, self.parts.worker)

    @cached_property
    def by_name(self) -> dict[tuple[str, str], LockEntry]:
        return {(each.section, each.name): each for each in self.entries}


def _is_code(entry: LockEntry) -> bool:
    """Is it known before anything is imported?"""
    return entry.section in ("worker", "children", "modules", "plugins", "hooks") or entry.origin.endswith(PROJECT)


def _is_offered(entry: LockEntry) -> bool:
    """Is it known only once toolsets are open, and servers connected?"""
    return entry.section == "tools" or (entry.section == "mcp" and "/" in entry.name)


def _server(entry: LockEntry) -> str:
    return entry.name.partition("/")[0]


def _is_of(name: str, label: str) -> bool:
    """Does a tool or a server belong to the worker with this label?"""
    return name.startswith(label) if label else ":" not in name.partition("/")[0]


class _Admission:
    """Lets tools into a toolbox that are what the lock says, and tells once of each that is not."""

    def __init__(self, lock: SessionLock, label: str, notify: Notify) -> None:
        self._lock, self._label, self._notify = lock, label, notify
        self._told: set[tuple[str, str]] = set()

    def __call__(self, opened: OpenToolset, offer: Offer) -> bool:
        if opened.source is PYTHON:
            return True
        tool, known = offer.tool, self._lock.by_name
        now = tool_entry(self._label, tool, offer.toolset)
        program = known.get(("executables", offer.original))
        runs = tool.source is None or tool.source.kind != "executable" or (program and program.sha256 == tool.digest)
        if known.get(("tools", now.name)) == now and runs:
            return True
        if (now.name, now.sha256) not in self._told:
            self._told.add((now.name, now.sha256))
            change = "changed since the session began" if ("tools", now.name) in known else "is new"
            problem = f"{change}, and {self._lock.file.name} does not have it so: it is left out"
            self._notify("warning", f"the tool {visible(tool.name)} {problem}")
        return False


def lock_for(worker: Worker, workspace: Path, home: Path, host: PluginHost) -> SessionLock:
    """The lock beside a worker, whose files fit; LockError where there is none, or they do not."""
    file = lock_file(worker.path)
    if not file.is_file():
        problem = f"{worker.name} runs only as its lock says, and there is no {file.name}"
        raise LockError(worker.config.where("lock"), problem, hint=f"forge lock {os.path.relpath(worker.path)}")
    try:
        entries = read_lock(file)
    except WorkerError as error:
        raise LockError(error.where, error.message, hint=error.hint) from None
    lock = SessionLock(file, WorkerParts(worker, workspace, home, host.stated), entries)
    lock.check_files(host)
    return lock


def stale_parts(worker: Worker, workspace: Path, home: Path) -> list[Difference]:
    """The differences that can be seen without importing or starting anything."""
    then = filter(_is_code, read_lock(lock_file(worker.path)))
    return differences(then, WorkerParts(worker, workspace.resolve(), home).code())
