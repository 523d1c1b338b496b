"""Replacing an exact text: matches, unchanged parts, and refusals.

It covers forge_cli.sandbox.patches.match with exact texts, too.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.errors import ToolError
from forge_cli.sandbox.patches.replace import replace_text

CODE = b"def one():\n    return 1\n\n\ndef two():\n    return 2\n"


def replaced(data: bytes, old: str, new: str, **given: bool) -> bytes:
    return replace_text("a.py", data, old, new, **given).after.encode()


def refusal(data: bytes, old: str, new: str = "new", **given: bool) -> str:
    with pytest.raises(ToolError) as error:
        replace_text("a.py", data, old, new, **given)
    return str(error.value)


@pytest.mark.parametrize(
    ("data", "old", "new", "after"),
    [
        (b"Hello, world!\n", "world", "forge", b"Hello, forge!\n"),
        (b"a\nb\nc\n", "a\nb\n", "b\n", b"b\nc\n"),
        (b"a\nb", "b", "b\nc", b"a\nb\nc"),
        (b"a\nb\n", "b\n", "", b"a\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "a\r\nx\r\nb", b"a\r\nx\r\nb\r\nc\r\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nc", "a\nb\nC", b"a\r\nb\nC\r\n"),
        (b"a\r\nb", "b", "b\nc", b"a\r\nb\r\nc"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"a.*b\n", "a.*b", "\\1", b"\\1\n"),
        ("füße\n".encode(), "ß", "ss", "füsse\n".encode()),
        (b"a\x0cb\rc\n", "b\r", "x\r", b"a\x0cx\rc\n"),
    ],
)
def test_replacement_changes_one_place_only(data: bytes, old: str, new: str, after: bytes) -> None:
    assert replaced(data, old, new) == after


def test_move_names_the_old_path() -> None:
    found = replace_text("a.py", CODE, "    return", "    yield", everywhere=True)
    assert found.lines == (2, 6)
    assert found.after.encode() == CODE.replace(b"return", b"yield")


def test_overlapping_places_are_ambiguous_and_replaced_from_the_left() -> None:
    assert "2 times, at lines 1, 1" in refusal(b"aaa\n", "aa")
    assert replaced(b"aaa\n", "aa", "b", everywhere=True) == b"ba\n"


TEXTS = st.text("ab\n ", max_size=12)


@given(TEXTS, TEXTS.filter(bool), TEXTS, TEXTS, st.sampled_from(["\n", "\r\n"]))
def test_replacement_equals_that_of_python(
    head: str, old: str, new: str, tail: str, ending: str
) -> None:
    text = f"\n{head}{old}{tail}"
    if old != new:
        after = replaced(text.replace("\n", ending).encode(), old, new, everywhere=True)
        assert after == text.replace(old, new).replace("\n", ending).encode()


@pytest.mark.parametrize(
    ("data", "old", "new", "sentence"),
    [
        (
            b"a",
            "",
            "x",
            "old is empty; give the text to replace, or write the whole file with write_file",
        ),
        (b"a", "a", "a", "old and new are the same text"),
        (b"a\r\nb", "a\r\nb", "a\nb", "old and new are the same text"),
        (b"a\0b", "a", "x", "'a.py' is a binary file of 3 bytes, which cannot be edited"),
        (b"\xff\xfe", "a", "x", "'a.py' is not UTF-8 text (2 bytes), so it cannot be edited"),
        (b"a", "\ud800", "x", "the text contains half of a surrogate pair; remove it"),
        (
            b"",
            "a",
            "x",
            "old is not in 'a.py', nor anything similar; read the file and copy the text exactly",
        ),
        (
            CODE,
            "    return",
            "x",
            "old is in 'a.py' 2 times, at lines 2, 6; add surrounding lines to old and new, or set all to replace every one",
        ),
        (
            CODE,
            "1: def one():\n2:     return 1",
            "x",
            "old is not in 'a.py' with the line numbers that read_file adds; remove them",
        ),
        (
            b"a\nb",
            "b\n",
            "x",
            "old is not in 'a.py' with the newlines around it; remove them",
        ),
    ],
)
def test_refusal_says_what_to_do(data: bytes, old: str, new: str, sentence: str) -> None:
    assert refusal(data, old, new) == sentence


@pytest.mark.parametrize(
    ("old", "near"),
    [
        (
            "def two():\n  return 2",
            "5: def two():\n6:     return 2\nLine 6 differs in spaces; old has:   return 2",
        ),
        (
            "return 1\n\ndef two",
            "2:     return 1\n3: \n4: \nLine 4 differs; old has: def two",
        ),
        ("DEF two():", "5: def two():\nLine 5 differs; old has: DEF two():"),
        (
            "return  1",
            "2:     return 1\nLine 2 differs in spaces; old has: return  1",
        ),
        ("def one(x):", "1: def one():\nLine 1 differs; old has: def one(x):"),
    ],
)
def test_nearest_lines_are_shown_with_their_numbers(old: str, near: str) -> None:
    assert refusal(CODE, old) == f"old is not in 'a.py'.\nThe nearest lines are:\n{near}"


def test_search_shows_nothing_of_possible_secrets() -> None:
    assert refusal(b"KEY=abcdef\n", "KEY=abcdeg", quiet=True) == (
        "old is not in 'a.py'; read the file and copy the text exactly"
    )


@pytest.mark.long
def test_long_file_full_of_matches_takes_a_moment() -> None:
    data = b"a\n" * 200_000
    assert "200000 times, at lines 1, 2, 3, 4, 5 and 199995 more" in refusal(data, "a")
    assert replaced(data, "a", "b", everywhere=True) == b"b\n" * 200_000
