"""How plugins tell a person something while a worker runs: a level and a sentence."""

from __future__ import annotations

from collections.abc import Callable

from forge_cli.core.events import StatusLevel

Notify = Callable[[StatusLevel, str], None]

COMMANDS = "commands: "
"""How the line begins that says what confines child processes."""
UNCONFINED_RULES = "commands that rules pre-approve run unconfined: install bubblewrap (bwrap), or say 'isolation: off'"
"""Told even where warnings are not: nobody is asked, and nothing holds back what runs."""
