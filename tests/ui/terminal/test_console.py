"""The console: plain where people want it plain."""

from io import StringIO

import pytest

from forge_cli.ui.terminal.console import new_console

from ...rows import each_row


@each_row("columns", ["0", "00", "none"])
def test_a_width_that_is_none_is_not_taken(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", "0")
    assert new_console(StringIO()).size == (80, 24)
