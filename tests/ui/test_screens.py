"""What lists, errors and other answers of commands look like on a real terminal, wide and narrow.

Covers forge_cli.cli.table.
"""

import pytest
from rich.cells import cell_len

WIDTHS = pytest.mark.parametrize("columns", [80, 50])


def screen(keyboard) -> list[str]:
    """The lines of a command that has ended, each of them checked to fit."""
    columns = keyboard.child.getwinsize()[1]
    keyboard.end()
    lines = keyboard.seen.replace("\r", "").rstrip("\n").split("\n")
    assert [line for line in lines if cell_len(line) > columns] == []
    return lines


@WIDTHS
def test_errors_are_broken_between_words(terminal, columns: int) -> None:
    lines = screen(terminal("run", "worker.yaml", "go", "-r", "no-such-session-here", columns=columns))
    assert lines[0].startswith("forge: there is no session")
    assert " ".join(" ".join(lines).split()) == (
        "forge: there is no session 'no-such-session-here' forge sessions list shows them"
    )
