"""The console: plain where people want it plain."""

from io import StringIO

import pytest

from forge_cli.ui.terminal.console import new_console

from ...rows import each_row


def written(monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    file = StringIO()
    new_console(file).print("words", style="bold red")
    return file.getvalue()


def test_styles_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[1;31m" in written(monkeypatch, FORCE_COLOR="1", TERM="xterm")


def test_no_escapes_at_all_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, FORCE_COLOR="1", TERM="xterm", NO_COLOR="1") == "words\n"


@each_row("columns", ["0", "00", "none"])
def test_a_width_that_is_none_is_not_taken(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "0")
    assert new_console(StringIO()).size == (80, 24)
