"""Tables that fit any terminal, and are whole in a pipe."""

import io
import os
import termios
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from forge_cli.ui.table import Column, print_table

COLUMNS = [Column("name"), Column("kind", drop=2), Column("size", drop=1), Column("about", room=12)]
ROWS = [
    {"name": "one", "kind": "folder", "size": "12 bytes", "about": "A few words about it"},
    {"name": "日本語", "kind": "file", "size": "3 bytes", "about": "ask"},
    {"name": "odd", "kind": "file", "error": "it cannot be read, and nobody knows why"},
]


def printed(columns, rows, width: int) -> list[str]:
    """The output for a terminal of that width."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    with (
        open(ours, "rb", buffering=0) as screen,
        open(theirs, "w") as terminal,
        redirect_stdout(terminal),
    ):
        print_table(columns, rows)
        terminal.write("\0")
        terminal.flush()
        shown = b""
        while not shown.endswith(b"\0"):
            shown += screen.read(4096)
    return shown[:-1].decode().replace("\r", "").splitlines()


@pytest.fixture(autouse=True)
def dumb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")


def test_piped_table_is_complete() -> None:
    with redirect_stdout(io.StringIO()) as out:
        print_table(COLUMNS, ROWS)
    assert out.getvalue().splitlines() == [
        "name    kind    size      about",
        "one     folder  12 bytes  A few words about it",
        "日本語  file    3 bytes   ask",
        "odd     file              it cannot be read, and nobody knows why",
    ]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (
            40,
            [
                "name    kind    size      about",
                "one     folder  12 bytes  A few words a…",
                "日本語  file    3 bytes   ask",
                "odd     file              it cannot be",
                "  read, and nobody knows why",
            ],
        ),
        (
            30,
            [
                "name    kind    about",
                "one     folder  A few words a…",
                "日本語  file    ask",
                "odd     file    it cannot be",
                "  read, and nobody knows why",
            ],
        ),
        (
            20,
            [
                "name    about",
                "one     A few words…",
                "日本語  ask",
                "odd     it cannot be",
                "  read, and nobody",
                "  knows why",
            ],
        ),
    ],
)
def test_important_columns_get_the_width(width: int, shown: list[str]) -> None:
    assert printed(COLUMNS, ROWS, width) == shown


@given(
    st.lists(
        st.fixed_dictionaries({name: st.text("ab 漢é", max_size=30) for name in ("a", "b", "c")}),
        max_size=4,
    ),
    st.integers(24, 90),
    st.lists(st.none() | st.integers(0, 3), min_size=3, max_size=3),
    st.integers(6, 40),
)
def test_every_line_fits_the_terminal(rows, width: int, drops: list[int | None], room: int) -> None:
    columns = [Column(name, drop=drop) for name, drop in zip("abc", drops, strict=True)]
    columns[-1] = Column("c", room=room)
    assert [line for line in printed(columns, rows, width) if cell_len(line) > width] == []
