"""The lock of a worker: its file, what differs from it in words, and a session that keeps to it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, cast

import yaml
from msgspec import Struct
from pydantic import Field

from forge_cli.core.errors import LockError, Mark, WorkerError
from forge_cli.core.locking import SECTIONS, LockEntry
from forge_cli.core.notify import Notify
from forge_cli.core.source import PYTHON
from forge_cli.core.text import visible
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.toolbox import OpenToolset, Toolbox
from forge_cli.engine.lock.gather import PROJECT, WorkerParts, offered_parts, tool_entry
from forge_cli.engine.lock.imports import import_only
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.document import read_document
from forge_cli.files.replace import replace_file
from forge_cli.files.sources import Sources
from forge_cli.files.worker import Worker
from forge_cli.schema.config import Config, parse_config

_HEAD = "# Everything that {name} consists of, as it was reviewed; made by `forge lock`, changed by `forge lock --update`\n"


class EntrySection(Config):
    """One entry as it is written."""

    name: str
    """The key among the others."""
    version: str = ""
    """Of a package."""
    from_: str = Field(alias="from")
    """The origin."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The hash of its content."""


Entries = Annotated[list[EntrySection], Field(default_factory=list)]


class LockFile(Config):
    """A lock as it is written."""

    worker: Entries
    children: Entries
    modules: Entries
    plugins: Entries
    executables: Entries
    skills: Entries
    hooks: Entries
    mcp: Entries
    tools: Entries
    policy: Entries


def lock_file(worker: Path) -> Path:
    """The lock of a worker: beside its file, ``reporter.lock`` for ``reporter.yaml``."""
    return worker.with_suffix(".lock")


def read_lock(file: Path) -> tuple[LockEntry, ...]:
    """The entries of a lock; what is wrong with the file is a WorkerError with its place."""
    found = parse_config(LockFile, read_document(file, may_be_empty=True).data, file=str(file))
    entries: list[LockEntry] = []
    for section in SECTIONS:
        for each in getattr(found, section):
            entries.append(LockEntry(section, each.name, each.from_, each.sha256, each.version))
    return tuple(entries)


def lock_text(name: str, entries: Iterable[LockEntry]) -> str:
    """The entries as they are written; what is not plain ASCII is escaped, so that a review sees it."""
    parts = [_HEAD.format(name=name)]
    ordered = sorted(entries, key=lambda each: (each.name, each.origin))
    for section in SECTIONS:
        rows = [_row(each) for each in ordered if each.section == section]
        parts.append(
            yaml.safe_dump(
                {section: rows}, default_flow_style=None, sort_keys=False, width=math.inf
            )
        )
    return "".join(parts)


def _row(entry: LockEntry) -> dict[str, str]:
    row = {
        "name": entry.name,
        "version": entry.version,
        "from": entry.origin,
        "sha256": entry.sha256,
    }
    return {key: value for key, value in row.items() if value or key != "version"}


def write_lock(file: Path, name: str, entries: Iterable[LockEntry]) -> None:
    """Write a lock, whole or not at all."""
    replace_file(file, lock_text(name, entries))


ONE = {
    "worker": "the worker's file",
    "children": "the child worker",
    "modules": "the module",
    "plugins": "the package",
    "executables": "the executable",
    "skills": "the skill",
    "hooks": "the hook",
    "mcp": "the MCP server",
    "tools": "the tool",
    "policy": "the policy",
}
"""How one entry of a section is called."""


class Difference(Struct, frozen=True):
    """One thing that is not as it was: without ``then`` it is new, without ``now`` it is gone."""

    then: LockEntry | None
    now: LockEntry | None

    @property
    def entry(self) -> LockEntry:
        """The one that is told of."""
        return cast(LockEntry, self.now or self.then)

    def __str__(self) -> str:
        then, now = self.then, self.now
        if then is None or now is None:
            return f"{_title(self.entry)} was {'added' if then is None else 'removed'}"
        if then.name != now.name:
            return f"{_title(then)} was renamed: it is {_quoted(now)} now"
        if then.version != now.version:
            return f"{_title(then)} changed from {then.version or 'no version'} to {now.version or 'no version'}"
        if then.sha256 != now.sha256:
            return (
                f"{_title(then)} changed{f'; it still says {now.version}' if now.version else ''}"
            )
        return f"{_title(then)} comes from {visible(now.origin)} now"


def _title(entry: LockEntry) -> str:
    """The name; ``time/tools/now`` is something that the MCP server ``time`` offers."""
    server, _, offered = entry.name.partition("/")
    if entry.section == "mcp" and offered:
        return f"{visible(offered)} of {ONE['mcp']} '{visible(server)}'"
    return f"{ONE[entry.section]} {_quoted(entry)} ({visible(entry.origin)})"


def _quoted(entry: LockEntry) -> str:
    return f"'{visible(entry.name)}'"


def differences(then: Iterable[LockEntry], now: Iterable[LockEntry]) -> list[Difference]:
    """All of them, by section and name; what is gone under one name and there under another was renamed."""
    locked, found = {_key(each): each for each in then}, {_key(each): each for each in now}
    gone = [locked[key] for key in locked.keys() - found.keys()]
    new = [found[key] for key in found.keys() - locked.keys()]
    told = [*_renamed(gone, new)]
    told += [Difference(each, None) for each in gone] + [Difference(None, each) for each in new]
    told += [
        Difference(locked[key], found[key])
        for key in locked.keys() & found.keys()
        if locked[key] != found[key]
    ]
    return sorted(told, key=lambda each: (SECTIONS.index(each.entry.section), each.entry.name))


def _key(entry: LockEntry) -> tuple[str, str]:
    return entry.section, entry.name


def _renamed(gone: list[LockEntry], new: list[LockEntry]) -> Iterator[Difference]:
    """Take pairs of the same content out of both lists."""
    for then in sorted(gone, key=_key):
        same = [each for each in new if (each.section, each.sha256) == (then.section, then.sha256)]
        if same:
            gone.remove(then)
            new.remove(same[0])
            yield Difference(then, same[0])


class LockDiffers(LockError):
    """A worker is not what its lock says; the message has every difference that was found so far."""

    def __init__(self, file: Path, found: Sequence[Difference], worker: Worker) -> None:
        lines = "".join(f"\n  {each}" for each in found)
        hint = f"review that, then: forge lock {os.path.relpath(worker.path)} --update"
        super().__init__(Mark(str(file)), f"the worker is not what was locked{lines}", hint=hint)
        self.worker = worker
        self.told = [str(each) for each in found]


class SessionLock:
    """The lock that a session keeps to, for a worker and its children."""

    def __init__(self, file: Path, parts: WorkerParts, entries: tuple[LockEntry, ...]) -> None:
        self.file = file
        self.parts = parts
        self.entries = entries
        self.by_name = {(each.section, each.name): each for each in entries}

    def check_files(self, host: PluginHost) -> None:
        """Compare all that is there before anything is opened; what toolsets declare comes once their code fits."""
        self._compare(self.parts.code(), _is_code)
        import_only(
            self.parts.hashes,
            frozenset(self.parts.packages),
            self.parts.home / "cache" / "compiled",
        )
        host.check_code = self.check_code
        self._compare(
            self.parts.declared(), lambda entry: not _is_code(entry) and not _is_offered(entry)
        )

    def check_code(self, sources: Sources) -> None:
        """Refuse files other than those of the lock: it is called with the very bytes that are going to be imported."""
        for path, content in sources.hashes.items():
            name = self.parts.module_name(path)
            then = self.by_name.get(("modules", name))
            if then is None or then.sha256 != content:
                now = LockEntry(
                    "modules", name, then.origin if then else "it is imported now", content
                )
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
        servers = {
            each.name for each in self.entries if each.section == "mcp" and not _is_offered(each)
        }
        absent = {name for name in servers - connected if _is_of(name, label)}

        def counts(entry: LockEntry) -> bool:
            if not _is_offered(entry) or not _is_of(entry.name, label):
                return False
            if (
                absent and entry.section == "tools" and entry.origin == "mcp"
            ):  # also those that read resources
                return entry.name.startswith(tuple(f"{name}__" for name in connected))
            return _server(entry) not in absent

        self._compare(filter(counts, found), counts)
        toolbox.admit = _Admission(self, label, notify)

    def _compare(self, now: Iterable[LockEntry], counts: Callable[[LockEntry], bool]) -> None:
        if found := differences(filter(counts, self.entries), now):
            raise LockDiffers(self.file, found, self.parts.worker)


def _is_code(entry: LockEntry) -> bool:
    """Is it known before anything is imported?"""
    return entry.section in (
        "worker",
        "children",
        "modules",
        "plugins",
        "hooks",
    ) or entry.origin.endswith(PROJECT)


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
        runs = (
            tool.source is None
            or tool.source.kind != "executable"
            or (program and program.sha256 == tool.digest)
        )
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
        raise LockError(
            worker.config.where("lock"), problem, hint=f"forge lock {os.path.relpath(worker.path)}"
        )
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
