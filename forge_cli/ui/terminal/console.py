"""Consoles for people: plain wherever ``NO_COLOR`` says so, and as large as the terminal really is."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console, ConsoleDimensions

COLUMNS, ROWS = 80, 24
"""Of a terminal that does not say how large it is."""


class ScreenConsole(Console):
    """A console that asks its terminal for the size: with ``COLUMNS=0`` nothing would be drawn, not even a prompt."""

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
    """A console on ``file``, else on standard error; with ``NO_COLOR`` it writes no escapes, not even for bold."""
    plain = bool(os.environ.get("NO_COLOR"))
    return ScreenConsole(
        file=file,
        stderr=file is None,
        highlight=False,
        soft_wrap=True,
        color_system=None if plain else "auto",
    )
