"""The terminal of forge for a program of your own: its output, its questions, and commands that are typed."""

from __future__ import annotations

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
