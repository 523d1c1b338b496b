"""Where people read: plain wherever ``NO_COLOR`` says so, and never wider than what is said."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console


def new_console(file: TextIO | None = None) -> Console:
    """A console on ``file``, else on standard error; with ``NO_COLOR`` it writes no escapes, not even for bold."""
    plain = bool(os.environ.get("NO_COLOR"))
    return Console(
        file=file, stderr=file is None, highlight=False, soft_wrap=True, color_system=None if plain else "auto"
    )
