"""Interface of the sandbox for tools: everything that a tool can do with files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct

from forge_cli.core.approval import Verdict
from forge_cli.core.zones import Access, Zone

FileKind = Literal["file", "directory", "link", "special"]

READ_MAX = 64 * 1024 * 1024
"""The most bytes of a file that is read whole."""


class FileInfo(Struct, frozen=True):
    """Facts about a file or folder, by its resolved path."""

    name: str
    path: str
    kind: FileKind
    size: int
    mtime: float


class FolderEntry(Struct, frozen=True, order=True):
    """An entry of a listing.

    ``link`` is a link that leads nowhere or outside; unusable names are escaped.
    """

    name: str
    kind: FileKind
    size: int = 0


class SandboxView(Protocol):
    """Files in the worker's zones.

    A path is virtual (``/ZONE/rest``), relative to the working directory, real and absolute, or in
    the user's home (``~/rest``). A path outside of every zone is refused. Pre-approved access
    happens at once. Access that asks is possible only for paths that the call declared
    (``ReadPath``, ``WritePath``, ``DeletePath``, ``touches``), because they were judged and
    approved before the call began. Any other access is a ToolError that names the missing
    declaration: forge never asks in the middle of a call.
    """

    @property
    def zones(self) -> Sequence[Zone]:
        """The zones of the worker, in order."""

    def judge(self, path: str, access: Access | str) -> Verdict:
        """Return the verdict on an access; raise ToolError if the access is impossible."""
        ...

    def resolve(self, path: str) -> str:
        """Return the virtual path that ``path`` leads to; the file need not exist."""
        ...

    def real(self, path: str, access: Access | str = Access.READ) -> Path:
        """Return the path on the host, for a child process; its own access is not checked."""
        ...

    def read_bytes(self, path: str, *, limit: int | None = None) -> bytes:
        """Return the content of a file, or its first ``limit`` bytes."""
        ...

    def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a whole file, or create it with its parent folders."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file, a link (never its target) or an empty folder."""
        ...

    def exists(self, path: str) -> bool:
        """Return True if a file or folder with this path exists."""

    def stat(self, path: str) -> FileInfo:
        """Return size, times and kind of a file or folder."""

    def list(self, path: str) -> list[FolderEntry]:
        """Return the sorted entries of a folder; ``/`` contains the zones."""
        ...
