"""The file of a lock: YAML that people read in a review, one entry a line, sorted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field

from forge_cli.core.locking import SECTIONS, LockEntry
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
