"""forge's terminal for your own program: output, questions, and typed commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.ui.terminal.slash import ClassifiedCommand, ParsedCommand, is_command
from forge_cli.ui.terminal.terminal import TerminalUI

__all__ = [
    "ClassifiedCommand",
    "ParsedCommand",
    "TerminalUI",
    "is_command",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)
