"""The terminal of forge for a program of your own: its output, its questions, and commands that are typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.ui.terminal.prompts import cli_approval_callback
from forge_cli.ui.terminal.slash import ClassifiedCommand, ParsedCommand, classify_command, is_command, parse_command
from forge_cli.ui.terminal.terminal import TerminalUI
from forge_cli.ui.terminal.trace import trace_formatter

__all__ = [
    "ClassifiedCommand",
    "ParsedCommand",
    "TerminalUI",
    "classify_command",
    "cli_approval_callback",
    "is_command",
    "parse_command",
    "trace_formatter",
]


if not TYPE_CHECKING:  # a type checker would take any name for one of this module

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)
