"""A question to the person at the terminal, answered with a line."""

from __future__ import annotations

from contextlib import nullcontext

from forge_cli.process.streams import live_lines


def ask(prompt: str, at_end: str = "") -> str:
    """The line that was typed, without blanks around it; ``at_end`` where the input ends instead.

    Esc leaves the command as Ctrl+C does.
    """
    from forge_cli.process.signals import in_loop
    from forge_cli.ui.terminal.console import new_console
    from forge_cli.ui.terminal.input import LineReader, QuestionLeft

    live = live_lines()
    with live.paused() if live else nullcontext():
        try:
            line = in_loop(LineReader(new_console()).ask, prompt)
        except QuestionLeft:
            raise KeyboardInterrupt from None
    return at_end if line is None else line.strip()
