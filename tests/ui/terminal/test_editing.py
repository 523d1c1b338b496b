"""A line while it is edited: what keys do to it, and the rows that it takes.

Covers forge_cli.ui.terminal.keys.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from forge_cli.core.text import visible
from forge_cli.ui.terminal.editing import EditedLine, lay_out
from forge_cli.ui.terminal.keys import Key, KeyReader

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"


def keys(*pieces: bytes) -> list[Key]:
    reader, found = KeyReader(), list[Key]()
    for piece in pieces:
        reader.feed(piece)
        found += reader.complete()
    return found


def typed(text: str, history: tuple[str, ...] = ()) -> str:
    """The line after these keys, with a bar where the cursor stands."""
    line = EditedLine(history)
    for key in keys(text.encode()):
        line.press(key)
    return f"{line.text[: line.cursor]}|{line.text[line.cursor :]}"


@pytest.mark.parametrize(
    ("pressed", "line"),
    [
        ("abc", "abc|"),
        (f"abd{LEFT}c", "abc|d"),
        (f"ab{LEFT}{LEFT}{LEFT}x{RIGHT}", "xa|b"),
        ("bc\x01a", "a|bc"),
        ("\x1bOHa\x1b[1~b\x1b[7~c", "c|ba"),
        ("ab\x01\x05c\x1b[H\x1b[F\x1bOF\x1b[4~\x1b[8~d", "abcd|"),
        ("abc\x7f\x08", "a|"),
        ("\x7f\x1b[3~\x17\x15\x0b", "|"),
        ("abc\x01\x1b[3~\x04", "|c"),
        ("one two  \x17three", "one three|"),
        ("one two\x1b\x7f", "one |"),
        ("one two\x15x", "x|"),
        (f"one two{LEFT}{LEFT}\x0b", "one t|"),
        ("one two\x17\x01\x19", "two|one "),
        ("one two\x1bb\x1bb\x1b[1;5CX", "oneX| two"),
        ("one two\x1b[1;5D\x1bfY\x1bf", "one twoY|"),
        ("日本\x7f", "日|"),
        (f"日本{LEFT}x", "日x|本"),
        ("ae\u0301\u0302\x7f", "a|"),
        (f"e\u0301b{LEFT}{LEFT}x", "x|e\u0301b"),
        (f"e\u0301b\x01{RIGHT}x", "e\u0301x|b"),
        ("a\x00\x07\x1b[5~\x1b[99;9Xb\x1b[Z", "ab|"),
        ("n \x1b[200~one\r\ntwo\rthree\n\x03\x1b[201~!", "n one\ntwo\nthree\n\x03!|"),
        ("\x1b\x1b[Da", "a|"),
    ],
)
def test_keys_edit_a_line(pressed: str, line: str) -> None:
    assert typed(pressed) == line


@pytest.mark.parametrize(
    ("pressed", "line"),
    [
        (UP, "two|"),
        (f"{UP}{UP}{UP}", "one|"),
        (f"new{UP}{DOWN}{DOWN}", "new|"),
        (f"{UP}!{UP}{DOWN}", "two!|"),
        ("\x10\x10\x0e", "two|"),
    ],
)
def test_earlier_lines_are_at_hand(pressed: str, line: str) -> None:
    assert typed(pressed, ("one", "two")) == line


def test_enter_and_the_end_of_input_are_keys() -> None:
    assert keys(b"a\r\n\x04") == [Key("text", "a"), Key("enter"), Key("enter"), Key("end of input")]


PIECES = ["a", "日", "e\u0301", "\x1b[D", "\x1bOA", "\x1bb", "\x17", "\r", "\x1b[200~x\r\ny\x1b[201~", "\x1b[1;5C"]


@given(st.lists(st.sampled_from(PIECES)), st.data())
def test_keys_may_come_in_pieces(pressed: list[str], data: st.DataObject) -> None:
    sent = "".join(pressed).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)))))
    pieces = [sent[start:end] for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert keys(*pieces) == keys(sent)


@given(st.text(), st.text("ab 日\u0301\n\x1b"), st.integers(0, 40), st.integers(2, 60))
def test_rows_hold_all_of_a_line_and_the_cursor(prompt: str, text: str, cursor: int, width: int) -> None:
    line = EditedLine()
    line.text, line.cursor = text, min(cursor, len(text))
    rows, row, column = lay_out(prompt, line, width)
    assert "".join(rows) == visible(prompt + text)
    assert all(cell_len(each) <= width for each in rows)
    assert 0 <= row < len(rows)
    assert 0 <= column < width
    before = "".join(rows[:row])
    assert cell_len(before) + column == cell_len(visible(prompt + text[: line.cursor]))
