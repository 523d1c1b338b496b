"""The last versions of every tool, to compare with and to restore."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.files.document import parse_document
from forge_cli.files.replace import replace_file
from forge_cli.sandbox.names import shown
from forge_cli.toolsets.executables.contents import (
    Content,
    TooLargeError,
    pack,
    read_contents,
    unpack,
)
from forge_cli.toolsets.executables.manifest import FILE
from forge_cli.toolsets.executables.registry import Program, digest

MAX_VERSIONS = 10
"""Versions that are kept of one tool."""
SHORT = 8
"""Characters of an abbreviated hash."""
_SUFFIX = ".tar.gz"
_HASH = re.compile(r"[0-9a-f]{64}")


class Version(Struct, frozen=True):
    """A past content of a tool, and the time when forge last saw it."""

    digest: str
    at: datetime
    file: Path

    @property
    def short(self) -> str:
        return self.digest[:SHORT]

    def contents(self) -> dict[str, Content]:
        """Return the files of this version; raise ForgeError if the archive is damaged."""
        try:
            return unpack(self.file.read_bytes())
        except (OSError, EOFError, tarfile.TarError, gzip.BadGzipFile, ValueError) as error:
            raise ForgeError(
                f"{self.file} cannot be read: {error}", hint="name another version"
            ) from None

    def declared(self) -> str:
        """Return the version in its ``tool.yaml``; empty if that cannot be read."""
        with suppress(ForgeError, KeyError):
            return str(parse_document(self.contents()[FILE].data, FILE).get("version", "1.0.0"))
        return ""


class Versions:
    """All versions: one archive each in ``HOME/versions``, where no tool can write."""

    def __init__(self, home: Path) -> None:
        self._root = home / "versions"

    def keep_program(self, program: Program) -> None:
        """Keep the content of a valid tool if possible."""
        self.keep(program.folder, program.files, program.digest)

    def keep(self, folder: Path, files: Sequence[str], digested: str) -> bool:
        """Keep the content of a tool under its digest, and return True if it is kept.

        A content that is kept already gets a new time only. Nothing is kept if the tool is too
        large, if it changes meanwhile, or if the home is not writable.
        """
        file = self._root / folder.name / f"{digested}{_SUFFIX}"
        try:
            os.utime(file)
        except FileNotFoundError:
            return self._add(file, folder, files, digested)
        except OSError:
            return file.exists()
        return True

    def _add(self, file: Path, folder: Path, files: Sequence[str], digested: str) -> bool:
        try:
            contents = read_contents(folder, files)
            # The files may have changed before they were read.
            if digest(folder, files) != digested:
                return False
            replace_file(file, pack(contents))
        except (OSError, TooLargeError):
            return False
        for old in self.of(folder.name)[MAX_VERSIONS:]:
            old.file.unlink(missing_ok=True)
        return True

    def of(self, name: str) -> list[Version]:
        """Return the versions of a tool, the most recently seen first."""
        try:
            files = list((self._root / name).iterdir())
        except OSError:
            return []
        found: list[tuple[int, Version]] = []
        for file in files:
            hashed = file.name.removesuffix(_SUFFIX)
            if _HASH.fullmatch(hashed):
                seen = file.stat().st_mtime_ns
                found.append(
                    (seen, Version(hashed, datetime.fromtimestamp(seen / 1e9).astimezone(), file))
                )
        found.sort(key=lambda each: each[0], reverse=True)
        return [version for _, version in found]

    def names(self) -> list[str]:
        """Return the names of all tools with versions, including removed tools."""
        try:
            return sorted(each.name for each in self._root.iterdir())
        except OSError:
            return []

    def find(self, name: str, wanted: str | None, current: str | None) -> Version:
        """Return a version by hash or declared version, by default the one before ``current``."""
        others = [version for version in self.of(name) if version.digest != current]
        if not others:
            raise UsageError(
                f"there is no other version of {shown(name)}",
                hint="forge keeps a version whenever a run, a call or a build sees a changed tool",
            )
        if wanted is None:
            return others[0]
        # A shorter text is more likely a declared version, such as 2, than a hash.
        matching = [each for each in others if len(wanted) >= 4 and each.digest.startswith(wanted)]
        matching = matching or [each for each in others if each.declared() == wanted][:1]
        if len(matching) == 1:
            return matching[0]
        known = ", ".join(each.short for each in others)
        raise UsageError(
            f"there is no other version {shown(wanted)} of {shown(name)}", hint=f"known: {known}"
        )

    def forget(self, name: str) -> None:
        shutil.rmtree(self._root / name, ignore_errors=True)
