"""A question to the person at the terminal, answered with a line."""

from __future__ import annotations

import sys

from forge_cli.core.text import visible


def ask(prompt: str) -> str:
    """The line that was typed, without blanks around it; empty at the end of the input."""
    sys.stderr.write(visible(prompt, keep="\n"))
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        sys.stderr.write("\n")
    return line.strip()
