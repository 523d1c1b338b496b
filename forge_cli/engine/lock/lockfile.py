"""The file of a lock, YAML that people read in a review, and in words what differs from it now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, cast

import yaml
from pydantic import Field

from forge_cli.core.locking import SECTIONS, LockEntry
from forge_cli.core.text import visible
from forge_cli.files.document import read_document
from forge_cli.files.replace import replace_file
from forge_cli.schema.config import Config, parse_config

_HEAD = (
    "# Everything that {name} consists of, as it was reviewed; made by `forge lock`, changed by `forge lock --update`\n"
)


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
    return tuple(
        LockEntry(section, each.name, each.from_, each.sha256, each.version)
        for section in SECTIONS
        for each in getattr(found, section)
    )


def lock_text(name: str, entries: Iterable[LockEntry]) -> str:
    """The entries as they are written; what is not plain ASCII is escaped, so that a review sees it."""
    parts = [_HEAD.format(name=name)]
    ordered = sorted(entries, key=lambda each: (each.name, each.origin))
    for section in SECTIONS:
        rows = [_row(each) for each in ordered if each.section == section]
        parts.append(yaml.safe_dump({section: rows}, default_flow_style=None, sort_keys=False, width=math.inf))
    return "".join(parts)


def _row(entry: LockEntry) -> dict[str, str]:
    row = {"name": entry.name, "version": entry.version, "from": entry.origin, "sha256": entry.sha256}
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


@dataclass(frozen=True)
class Difference:
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
            return f"{_title(then)} changed{f'; it still says {now.version}' if now.version else ''}"
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
    told += [Difference(locked[key], found[key]) for key in locked.keys() & found.keys() if locked[key] != found[key]]
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
