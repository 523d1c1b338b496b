"""Records of the sources of imported tools, in a folder that no tool can write to."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file

_LIMIT = 64 * 1024
"""Bytes of one record."""


class Imported(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The source of an imported tool, its version and the content that was imported."""

    source: str
    kind: str
    time: str
    digest: str
    """The hash of the imported content; a different hash shows that the tool was changed."""
    folder: str = ""
    """The folder of the tool inside the source."""
    name: str = ""
    """The name of the tool in the source, if it was renamed."""
    commit: str = ""
    sha256: str = ""
    """The hash of the archive."""

    @classmethod
    def now(cls, **facts: str) -> Imported:
        return cls(time=datetime.now(UTC).isoformat(timespec="seconds"), **facts)

    def sentence(self, digest: str | None) -> str:
        """Describe the source for people; ``digest`` is the hash of the current content."""
        version = ""
        if self.commit:
            version = f" at commit {self.commit[:12]}"
        elif self.sha256:
            version = f" (sha256 {self.sha256[:16]})"
        inside = f", {self.folder}" if self.folder else ""
        named = f", as {self.name}" if self.name else ""
        when = datetime.fromisoformat(self.time).astimezone()
        changed = "" if digest == self.digest else "; changed since"
        return f"{self.source}{version}{inside}{named}, on {when:%Y-%m-%d %H:%M}{changed}"


class ImportRecords:
    """The records of all imported tools: one file for each tool in ``HOME/imported``."""

    def __init__(self, home: Path) -> None:
        self._root = home / "imported"

    def keep(self, tool: str, imported: Imported) -> None:
        replace_file(self._file(tool), json.dumps(msgspec.to_builtins(imported)) + "\n")

    def of(self, tool: str) -> Imported | None:
        """Return the record of a tool; None if it was not imported or the record is unreadable."""
        with suppress(OSError, msgspec.MsgspecError, ValueError):
            found = msgspec.json.decode(read_regular(self._file(tool), _LIMIT), type=Imported)
            datetime.fromisoformat(found.time)  # ``sentence`` must not fail on it later
            return found
        return None

    def forget(self, tool: str) -> None:
        with suppress(OSError):
            self._file(tool).unlink()
            self._root.rmdir()  # fails if there are records of other tools

    def _file(self, tool: str) -> Path:
        return self._root / f"{tool}.json"
