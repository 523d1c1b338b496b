"""Consoles for people, which respect ``NO_COLOR`` and the real size of the terminal."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console, ConsoleDimensions

COLUMNS, ROWS = 80, 24
"""The size of a terminal that does not report one."""


class ScreenConsole(Console):
    """A console with the size of its terminal; with ``COLUMNS=0``, rich would draw nothing."""

    @property
    def size(self) -> ConsoleDimensions:
        try:
            columns, rows = os.get_terminal_size(self.file.fileno())
        except (OSError, ValueError):
            columns, rows = (0, 0) if self.is_terminal else super().size
        return ConsoleDimensions(columns or COLUMNS, rows or ROWS)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size


def new_console(file: TextIO | None = None) -> Console:
    """Return a console on ``file`` or standard error; with ``NO_COLOR`` it writes no escapes."""
    plain = bool(os.environ.get("NO_COLOR"))
    return ScreenConsole(
        file=file,
        stderr=file is None,
        highlight=False,
        soft_wrap=True,
        color_system=None if plain else "auto",
    )
