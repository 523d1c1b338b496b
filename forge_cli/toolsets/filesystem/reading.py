"""Reading a text file, or some lines of it."""

from __future__ import annotations

from forge_cli.core.errors import ToolError
from forge_cli.core.results import FileContent
from forge_cli.core.sandbox import SandboxView
from forge_cli.core.zones import Access
from forge_cli.sandbox.files.held import READ_MAX
from forge_cli.toolsets.filesystem.held import hold, spell


def read_text(view: SandboxView, path: str, offset: int, limit: int | None, *, numbered: bool) -> FileContent:
    with hold(view, path, Access.READ) as file:
        size, part = file.info().size, offset > 1 or limit is not None
        if size > READ_MAX and not part:
            raise ToolError(f"{path} has {size} bytes; read some lines of it at a time, with offset and limit")
        if b"\0" in file.read(8192):
            raise ToolError(f"{path} is a binary file of {size} bytes; file_info tells its size")
        data = file.read_lines(offset, limit) if part else file.read()
        whole = data if not part else file.read() if size <= READ_MAX else None
    try:
        return FileContent(
            spell(view, path),
            data.decode(),
            size=size if part else len(data),
            first_line=offset,
            total_lines=None if whole is None else whole.count(b"\n") + (whole[-1:] not in (b"", b"\n")),
            numbered=numbered or None,
        )
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not UTF-8 text ({size} bytes)") from None
