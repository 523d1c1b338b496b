"""Places that rules name, opened as exactly those: somebody at work in a zone could put a link there meanwhile."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.names import shown


def open_exactly(place: Path) -> int:
    """A descriptor of the place itself; a link in it, or in place of it, starts nothing."""
    path = str(place)
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise ToolError(f"nothing was started: {shown(path)} cannot be confined: {error.strerror}") from None
    if os.readlink(f"/proc/self/fd/{descriptor}") != path or stat.S_ISLNK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ToolError(f"nothing was started: {shown(path)} is a link, or behind one, since a moment ago")
    return descriptor
