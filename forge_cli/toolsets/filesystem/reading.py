"""Reading a text file, or some lines of it."""

from __future__ import annotations

from forge_cli.core.errors import ToolError
from forge_cli.core.results import FileContent
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.held import READ_MAX
from forge_cli.toolsets.filesystem.held import hold, spell

AT_ONCE = 256 * 1024
"""Bytes of a file that are copied and decoded sooner than a thread takes up its work."""


def read_text(view: SandboxView, path: str, offset: int, limit: int | None, *, numbered: bool) -> FileContent:
    with hold(view, path, Access.READ) as file:
        size, part = file.info().size, offset > 1 or limit is not None
        if size > READ_MAX and not part:
            raise ToolError(f"{path} has {size} bytes; read some lines of it at a time, with offset and limit")
        whole = file.read() if size <= READ_MAX else None
        _check_text(path, file.read(_BEGINNING) if whole is None else whole, size)
        data = file.read_lines(offset, limit) if whole is None or part else whole
    return _content(view, path, data, whole, first_line=offset, size=size if part else len(data), numbered=numbered)


def read_cached(view: SandboxView, path: str, *, numbered: bool) -> FileContent | None:
    """The same of a whole file that is in memory and small; None for any other."""
    with hold(view, path, Access.READ) as file:
        data = file.read_cached(AT_ONCE)
    if data is None:
        return None
    _check_text(path, data, len(data))
    return _content(view, path, data, data, first_line=1, size=len(data), numbered=numbered)


_BEGINNING = 8192


def _check_text(path: str, data: bytes, size: int) -> None:
    if b"\0" in data[:_BEGINNING]:
        raise ToolError(f"{path} is a binary file of {size} bytes; file_info tells its size")


def _content(
    view: SandboxView, path: str, data: bytes, whole: bytes | None, *, first_line: int, size: int, numbered: bool
) -> FileContent:
    try:
        return FileContent(
            spell(view, path),
            data.decode(),
            size=size,
            first_line=first_line,
            total_lines=None if whole is None else whole.count(b"\n") + (whole[-1:] not in (b"", b"\n")),
            numbered=numbered or None,
        )
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text ({size} bytes)") from None
