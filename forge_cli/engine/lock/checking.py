"""Lock files: reading and writing them, differences as sentences, and sessions that keep to one."""

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

_HEAD = (
    "# Everything that {name} consists of, as it was reviewed;"
    " made by `forge lock`, changed by `forge lock --update`\n"
)


class EntrySection(Config):
    """An entry of a lock file."""

    name: str
    """The name of the part, unique in its section."""
    version: str = ""
    """The version of a package."""
    from_: str = Field(alias="from")
    """The origin of the part."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """The hash of its content."""


Entries = Annotated[list[EntrySection], Field(default_factory=list)]


class LockFile(Config):
    """The content of a lock file."""

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
    """Return the lock file of a worker: ``reporter.lock`` beside ``reporter.yaml``."""
    return worker.with_suffix(".lock")


def read_lock(file: Path) -> tuple[LockEntry, ...]:
    """Return the entries of a lock file; raise WorkerError with the place of a mistake."""
    found = parse_config(LockFile, read_document(file, may_be_empty=True).data, file=str(file))
    entries: list[LockEntry] = []
    for section in SECTIONS:
        for each in getattr(found, section):
            entries.append(LockEntry(section, each.name, each.from_, each.sha256, each.version))
    return tuple(entries)


def lock_text(name: str, entries: Iterable[LockEntry]) -> str:
    """Return the content of a lock file; non-ASCII characters are escaped, for reviews."""
    parts = [_HEAD.format(name=name)]
    ordered = sorted(entries, key=lambda each: (each.name, each.origin))
    for section in SECTIONS:
        # One line for each entry, however long, so that a diff shows which ones changed.
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
    if not entry.version:
        del row["version"]
    return row


def write_lock(file: Path, name: str, entries: Iterable[LockEntry]) -> None:
    """Write a lock file atomically."""
    replace_file(file, lock_text(name, entries))


_CODE_SECTIONS = ("worker", "children", "modules", "plugins", "hooks")
_NOUNS = {
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
"""The name of one entry of each section."""


class Difference(Struct, frozen=True):
    """A part that differs: ``then`` is None if it is new, ``now`` is None if it is gone."""

    then: LockEntry | None
    now: LockEntry | None

    @property
    def entry(self) -> LockEntry:
        """The entry to name in a message."""
        # One of them is always given.
        return cast(LockEntry, self.now or self.then)

    def __str__(self) -> str:
        then = self.then
        now = self.now
        if then is None:
            return f"{_title(self.entry)} was added"
        title = _title(then)
        if now is None:
            return f"{title} was removed"
        if then.name != now.name:
            return f"{title} was renamed to {_quoted(now)}"
        if then.version != now.version:
            before = then.version or "no version"
            return f"{title} changed from {before} to {now.version or 'no version'}"
        if then.sha256 != now.sha256:
            still = ""
            if now.version:
                still = f"; its version is still {now.version}"
            return f"{title} changed{still}"
        return f"{title} now comes from {visible(now.origin)}"


def _title(entry: LockEntry) -> str:
    """Return the name of a part.

    ``time/tools/now`` is something that the MCP server ``time`` offers.
    """
    server, _, offered = entry.name.partition("/")
    if entry.section == "mcp" and offered:
        return f"{visible(offered)} of {_NOUNS['mcp']} '{visible(server)}'"
    return f"{_NOUNS[entry.section]} {_quoted(entry)} ({visible(entry.origin)})"


def _quoted(entry: LockEntry) -> str:
    return f"'{visible(entry.name)}'"


def differences(then: Iterable[LockEntry], now: Iterable[LockEntry]) -> list[Difference]:
    """Return all differences by section and name.

    The same content under another name was renamed.
    """
    locked = {_key(each): each for each in then}
    found = {_key(each): each for each in now}
    gone = [locked[key] for key in locked.keys() - found.keys()]
    new = [found[key] for key in found.keys() - locked.keys()]
    result = list(_renamed(gone, new))
    result += [Difference(each, None) for each in gone]
    result += [Difference(None, each) for each in new]
    for key in locked.keys() & found.keys():
        if locked[key] != found[key]:
            result.append(Difference(locked[key], found[key]))
    return sorted(result, key=lambda each: (SECTIONS.index(each.entry.section), each.entry.name))


def _key(entry: LockEntry) -> tuple[str, str]:
    return entry.section, entry.name


def _renamed(gone: list[LockEntry], new: list[LockEntry]) -> Iterator[Difference]:
    """Remove pairs with the same content from both lists, and yield them."""
    for then in sorted(gone, key=_key):
        same = [each for each in new if (each.section, each.sha256) == (then.section, then.sha256)]
        if same:
            gone.remove(then)
            new.remove(same[0])
            yield Difference(then, same[0])


class LockDiffers(LockError):
    """A worker does not match its lock file; the message lists all differences found so far."""

    def __init__(self, file: Path, found: Sequence[Difference], worker: Worker) -> None:
        lines = "".join(f"\n  {each}" for each in found)
        hint = f"review that, then: forge lock {os.path.relpath(worker.path)} --update"
        super().__init__(
            Mark(str(file)), f"the worker does not match its lock file{lines}", hint=hint
        )
        self.worker = worker
        self.told = [str(each) for each in found]


class SessionLock:
    """The lock file that a session keeps to, for a worker and its children."""

    def __init__(self, file: Path, parts: WorkerParts, entries: tuple[LockEntry, ...]) -> None:
        self.file = file
        self.parts = parts
        self.entries = entries
        self.by_name = {(each.section, each.name): each for each in entries}

    def check_files(self, host: PluginHost) -> None:
        """Compare all files with the lock before anything is opened.

        Toolsets are asked for their parts only after their code matches.
        """
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
        """Raise LockDiffers unless these files, as they will be imported, match the lock."""
        for path, content in sources.hashes.items():
            name = self.parts.module_name(path)
            then = self.by_name.get(("modules", name))
            if then is None or then.sha256 != content:
                now = LockEntry("modules", name, then.origin if then else "imported now", content)
                raise LockDiffers(self.file, [Difference(then, now)], self.parts.worker)

    def check_child(self, worker: Worker) -> None:
        """Raise LockDiffers if a child worker changed after the check."""
        now = self.parts.worker_entry(worker)
        then = self.by_name.get((now.section, now.name))
        if then != now:
            raise LockDiffers(self.file, [Difference(then, now)], self.parts.worker)

    async def check_tools(self, worker: Worker, toolbox: Toolbox, notify: Notify) -> None:
        """Compare the tools of the open toolsets of a worker, and let in no others from then on.

        Nothing is known of a server that is not connected; its later tools are let in if they
        match.
        """
        label = self.parts.label(worker)
        found = await offered_parts(self.parts, worker, toolbox)
        connected = {_server(each) for each in found if each.section == "mcp"}
        servers = {
            each.name for each in self.entries if each.section == "mcp" and not _is_offered(each)
        }
        absent = {name for name in servers - connected if _is_of(name, label)}
        # With --read-only these cannot be called, and their descriptions tell the model so.
        uncallable = {
            f"{label}{name}"
            for name, offer in toolbox.offers.items()
            if not toolbox.is_usable(offer)
        }

        def counts(entry: LockEntry) -> bool:
            if not _is_offered(entry) or not _is_of(entry.name, label):
                return False
            if entry.section == "tools" and entry.name in uncallable:
                return False
            # Tools that read resources have no server in their name; they count once every server
            # is connected.
            if absent and entry.section == "tools" and entry.origin == "mcp":
                return entry.name.startswith(tuple(f"{name}__" for name in connected))
            return _server(entry) not in absent

        self._compare(filter(counts, found), counts)
        toolbox.admit = _Admission(self, label, notify)

    def _compare(self, now: Iterable[LockEntry], counts: Callable[[LockEntry], bool]) -> None:
        if found := differences(filter(counts, self.entries), now):
            raise LockDiffers(self.file, found, self.parts.worker)


def _is_code(entry: LockEntry) -> bool:
    """Return True if the part is known before anything is imported."""
    return entry.section in _CODE_SECTIONS or entry.origin.endswith(PROJECT)


def _is_offered(entry: LockEntry) -> bool:
    """Return True if the part is known only once toolsets are open and servers connected."""
    return entry.section == "tools" or (entry.section == "mcp" and "/" in entry.name)


def _server(entry: LockEntry) -> str:
    return entry.name.partition("/")[0]


def _is_of(name: str, label: str) -> bool:
    """Return True if a tool or server belongs to the worker with this label."""
    if label:
        return name.startswith(label)
    return ":" not in name.partition("/")[0]


class _Admission:
    """Lets tools into a toolbox that match the lock, and warns once about each other tool."""

    def __init__(self, lock: SessionLock, label: str, notify: Notify) -> None:
        self._lock = lock
        self._label = label
        self._notify = notify
        self._reported: set[tuple[str, str]] = set()

    def __call__(self, opened: OpenToolset, offer: Offer) -> bool:
        if opened.source is PYTHON:
            return True
        tool = offer.tool
        known = self._lock.by_name
        now = tool_entry(self._label, tool, offer.toolset)
        matches = known.get(("tools", now.name)) == now
        # The definition of an executable may be the same although its program is another one.
        if matches and tool.source and tool.source.kind == "executable":
            program = known.get(("executables", offer.original))
            matches = program is not None and program.sha256 == tool.digest
        if matches:
            return True
        if (now.name, now.sha256) not in self._reported:
            self._reported.add((now.name, now.sha256))
            change = "changed since the session began" if ("tools", now.name) in known else "is new"
            title = f"the tool {visible(tool.name)}"
            self._notify(
                "warning", f"{title} {change} and does not match {self._lock.file.name}; skipped"
            )
        return False


def lock_for(worker: Worker, workspace: Path, home: Path, host: PluginHost) -> SessionLock:
    """Return the lock beside a worker after checking its files.

    Raise LockError if the lock is missing or differs.
    """
    file = lock_file(worker.path)
    if not file.is_file():
        problem = f"{worker.name} requires a lock file, but {file.name} does not exist"
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
    """Return the differences that are visible without importing or starting anything."""
    then = filter(_is_code, read_lock(lock_file(worker.path)))
    return differences(then, WorkerParts(worker, workspace.resolve(), home).code())
