"""A notice for a person who looks elsewhere: the bell, and a message of the desktop where the terminal has one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from forge_cli.core.text import cut, visible

FOCUS_ON, FOCUS_OFF = "\x1b[?1004h", "\x1b[?1004l"
"""Have the terminal tell when it comes to the front, and when it leaves it."""
LONG = 10.0
"""Seconds of work after which somebody may look elsewhere; only asked where the terminal does not tell."""
_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "ghostty"})
_TERMS = frozenset({"xterm-kitty", "xterm-ghostty", "foot", "foot-extra"})


def has_messages(env: Mapping[str, str]) -> bool:
    """Is the terminal known to show OSC 9? Inside of tmux and screen it does not arrive."""
    if env.get("TMUX") or env.get("STY"):
        return False
    return env.get("TERM_PROGRAM") in _PROGRAMS or env.get("TERM") in _TERMS


class Notice:
    """Rings where the terminal is known to be behind others, or where nothing is known and it took long."""

    def __init__(self, write: Callable[[str], object], env: Mapping[str, str] = os.environ) -> None:
        self._write = write
        self._messages = has_messages(env)
        self.in_front: bool | None = None
        """None until the terminal has told."""

    def give(self, text: str, since: float) -> None:
        """Tell that something waits for the person, who has waited since then, a time of the monotonic clock."""
        if self.in_front or (self.in_front is None and time.monotonic() - since < LONG):
            return
        self._write(f"\x1b]9;{cut(visible(text), 100, 'end')}\a" if self._messages else "\a")
