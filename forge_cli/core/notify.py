"""How plugins tell a person something while a worker runs: a level and a sentence."""

from __future__ import annotations

from collections.abc import Callable

from forge_cli.core.events import StatusLevel

Notify = Callable[[StatusLevel, str], None]

COMMANDS = "commands: "
"""How the line begins that says what confines child processes."""
UNCONFINED_RULES = "commands that rules pre-approve run unconfined: install bubblewrap (bwrap), or say 'isolation: off'"
"""Told even where warnings are not: nobody is asked, and nothing holds back what runs."""
NOT_THERE = " is not there: "


def is_always_told(warning: str) -> bool:
    """Whether a warning is told even where warnings are not: also that the worker does without a server."""
    return warning == UNCONFINED_RULES or (warning.startswith("the MCP server ") and NOT_THERE in warning)
