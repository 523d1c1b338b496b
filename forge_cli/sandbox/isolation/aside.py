"""Protected names that a command has made: renamed where they are, so that nothing takes them for what they seem."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.isolation.places import open_exactly

REMOVED = "removed-by-forge"


def set_aside(path: Path) -> str | None:
    """Rename a file or folder, and give its new name; None where it is gone, or cannot be reached safely."""
    name = f"{REMOVED}.{path.name.lstrip('.')}.{uuid4().hex[:8]}"
    try:
        folder = open_exactly(path.parent)
    except ToolError:
        return None
    try:
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        return None
    finally:
        os.close(folder)
    return name
