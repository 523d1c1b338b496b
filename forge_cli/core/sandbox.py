"""The view of the sandbox that a call gets: all that a tool of any source can do with files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from forge_cli.core.approval import Verdict
from forge_cli.core.zones import Access, Zone

FileKind = Literal["file", "directory", "link", "special"]

READ_MAX = 64 * 1024 * 1024
"""Bytes of a file that is read as a whole."""


class FileInfo(Struct, frozen=True):
    """The kind and facts of a file or folder, by the path it really has."""

    name: str
    path: str
    kind: FileKind
    size: int
    mtime: float


class FolderEntry(Struct, frozen=True, order=True):
    """One line of a listing; ``link`` is one that leads nowhere or outside, an unusable name is shown escaped."""

    name: str
    kind: FileKind
    size: int = 0


class SandboxView(Protocol):
    """Files inside the worker's zones.

    A path is virtual (``/ZONE/rest``), relative to the working directory, real and absolute, or in the user's home
    (``~/rest``); what leads outside every zone is refused. What is pre-approved is done at once. What asks is done only
    for a path that the call declared (``ReadPath``, ``WritePath``, ``DeletePath``, ``touches``): then it was judged,
    and approved, before the call began. Anything else is a ToolError that names the missing declaration: no person is
    asked in the middle of a call.
    """

    @property
    def zones(self) -> Sequence[Zone]:
        """The folders that the worker reaches, in their order."""

    def judge(self, path: str, access: Access | str) -> Verdict:
        """The verdict of zone and protected names on an access, and why; a ToolError when it is not possible at all."""
        ...

    def resolve(self, path: str) -> str:
        """The virtual path of the file that a path leads to, existing or not."""
        ...

    def real(self, path: str, access: Access | str = Access.READ) -> Path:
        """The path on the host, for a child process; what that process finds there is not checked."""
        ...

    def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        """The content of a file, or its first ``limit`` bytes."""
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file as a whole, or make it, with the folders above it."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file, a link (never what it leads to), or an empty folder."""
        ...

    def exists(self, path: str) -> bool:
        """Return True if there is a file or folder of this path."""

    def stat(self, path: str) -> FileInfo:
        """Size, times and kind of a file or folder."""

    def list(self, path: str) -> list[FolderEntry]:
        """The entries of a folder, sorted; ``/`` holds the zones."""
        ...
