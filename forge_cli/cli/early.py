"""The sign of life of a command: decided by its arguments alone, before anything else is imported."""

from __future__ import annotations

import os
import sys
from itertools import pairwise

from forge_cli.process.streams import draw_below
from forge_cli.ui.terminal.live import LiveLines, Status, can_draw

VALUED = "morC"
"""The short options of ``forge run`` that take a value, which may follow in the same argument."""


def show_sign_of_life(args: list[str], since: float) -> None:
    """Show a status line on standard error from the first moment on, unless it is to be quiet there."""
    if can_draw(sys.stderr) and not os.environ.get("CI") and not is_quiet(args):
        live = LiveLines(sys.stderr.fileno(), Status().lines, since=since)
        draw_below(live)
        live.start()


def is_quiet(args: list[str]) -> bool:
    """Do the arguments, or else the user's config, want nothing but the answer? Help is nothing to wait for either."""
    given = args[: args.index("--")] if "--" in args else args
    levels = [value for name, value in pairwise(given) if name == "--trace"]
    levels += [arg.partition("=")[2] for arg in given if arg.startswith("--trace=")]
    if "--print" in given or "--help" in given or any(_has_print(arg) for arg in given):
        return True
    return levels[-1] == "quiet" if levels else _quiet_by_config()


def _has_print(arg: str) -> bool:
    """``-p`` alone or among others, as in ``-yp``."""
    if not arg.startswith("-") or arg.startswith("--"):
        return False
    flags = arg[1:]
    ends = [flags.index(letter) for letter in VALUED if letter in flags]
    return "p" in flags[: min(ends, default=len(flags))]


def _quiet_by_config() -> bool:
    """A plain look for the line ``trace: quiet``; the command itself reads the file properly, later."""
    home = os.environ.get("FORGE_HOME") or os.path.expanduser("~/.forge")
    try:
        with open(os.path.join(home, "config.yaml"), encoding="utf-8", errors="replace") as file:
            return any(line.split("#")[0].split() == ["trace:", "quiet"] for line in file)
    except OSError:
        return False
