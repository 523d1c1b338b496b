"""A question to the person at the terminal, answered with a line."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from forge_cli.cli.streams import live_lines
from forge_cli.core.text import visible


def ask(prompt: str, at_end: str = "") -> str:
    """The line that was typed, without blanks around it; ``at_end`` where the input ends instead."""
    live = live_lines()
    with live.paused() if live else nullcontext():
        sys.stderr.write(visible(prompt, keep="\n"))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line.endswith("\n"):
            sys.stderr.write("\n")
    return line.strip() if line else at_end
