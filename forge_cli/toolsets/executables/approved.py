"""The last approved state of a tool: its files as they were when a call of it was let through.

It lies in forge's own folder, outside the zone of the tools: a worker can edit a tool, not what was approved of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from forge_cli.files.regular import open_regular
from forge_cli.files.replace import replace_file
from forge_cli.toolsets.executables.registry import Program, digest

TEXT_LIMIT = 512 * 1024
"""Bytes of text that are kept of one tool; of what is more, and of what is not text, the hash."""


@dataclass(frozen=True)
class File:
    """A file of a tool; ``text`` is None where it is not text, or too much of it."""

    hash: str
    size: int
    executable: bool
    text: str | None


@dataclass(frozen=True)
class Snapshot:
    """The files of a tool as they were last approved, and when that was."""

    files: Mapping[str, File]
    at: datetime


class Approved:
    """One file a tool, named after the hash of its content; it is as old as the last call that was let through."""

    def __init__(self, home: Path) -> None:
        self._root = home / "approved"

    def keep(self, program: Program) -> None:
        """Remember the content of a program that is about to be started; a failure to do so is ignored.

        Only what is new is read and written.
        """
        file = self._root / program.name / f"{program.digest}.json"
        with suppress(OSError):
            try:
                os.utime(file)
            except FileNotFoundError:
                files = read_files(program.folder, program.files)
                if digest(program.folder, program.files) == program.digest:
                    replace_file(file, json.dumps({name: asdict(each) for name, each in files.items()}))
                    _leave_only(file)

    def last(self, name: str) -> Snapshot | None:
        """The last approved state of the tool of that name; None where there is none."""
        try:
            newest = max((self._root / name).glob("[!.]*.json"), key=lambda file: file.stat().st_mtime_ns)
            files = {path: File(**each) for path, each in json.loads(newest.read_bytes()).items()}
            return Snapshot(files, datetime.fromtimestamp(newest.stat().st_mtime).astimezone())
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def forget(self, name: str) -> None:
        shutil.rmtree(self._root / name, ignore_errors=True)


def read_files(folder: Path, names: Iterable[str]) -> dict[str, File]:
    """Files as they are now, the text of the first ones included."""
    files: dict[str, File] = {}
    room = TEXT_LIMIT
    for name in sorted(names):
        with open_regular(folder / name) as file:
            size, executable = os.fstat(file.fileno()).st_size, os.fstat(file.fileno()).st_mode & 0o111 != 0
            content = file.read() if size <= room else None
            file.seek(0)
            hashed = hashlib.file_digest(file, "sha256").hexdigest()
        text = None if content is None else _text(content)
        room -= size if text is not None else 0
        files[name] = File(hashed, size, executable, text)
    return files


def _text(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode()
    except UnicodeDecodeError:
        return None


def _leave_only(file: Path) -> None:
    for other in file.parent.glob("[!.]*.json"):
        if other != file:
            other.unlink(missing_ok=True)
