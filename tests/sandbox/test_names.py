"""Names as text: unusable ones, ones that look alike, and how they are shown."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.sandbox.names import folded, lookalike_key, shown, unusable
from tests.support.rows import each_row


@each_row(
    ("name", "problem"),
    [
        ("a\0b", "NUL"),
        ("a\nb", "control"),
        ("a\x1b[2J", "control"),
        ("a\x7f", "control"),
        ("a\u2028b", "control"),
        ("a\u202etxt.exe", "direction"),
        ("a\u2066b", "direction"),
        ("\ud800", "encoded"),
        ("n" * 256, "255 bytes"),
        ("é" * 128, "255 bytes"),
    ],
)
def test_names_that_no_file_may_have(name: str, problem: str) -> None:
    assert problem in (unusable(name) or "")


@each_row(
    "name", ["a.txt", "-rf", "~", "CON", "a:b", "a\\b", "‥", "café", "👨\u200d👩", "n" * 255, " "]
)
def test_names_that_are_ordinary(name: str) -> None:
    assert unusable(name) is None


@pytest.mark.parametrize(
    "other", ["cafe\u0301", "ｃafé", "ca\u200bfé", "ca\ufe0ffé", "ca\u034ffé", "caf\u00ade\u0301"]
)
def test_names_that_look_the_same(other: str) -> None:
    assert lookalike_key(other) == lookalike_key("café")


def test_case_is_seen_but_not_by_every_file_system() -> None:
    assert lookalike_key(".GIT") != lookalike_key(".git")
    assert folded(".GIT") == folded(".g\u200cit") == ".git"


def test_trailing_dots_and_spaces_are_folded() -> None:
    assert lookalike_key(".git.") != lookalike_key(".git ") != lookalike_key(".git")
    assert folded(".git.") == folded(".Git . ") == ".git"


def test_long_name_is_cut_in_the_middle() -> None:
    text = shown("a" * 150 + "b" * 150)
    assert re.fullmatch(r"'a{90,} \.\.\. b{90,}'", text)
    assert len(text) <= 202


@given(st.text())
def test_shown_text_cannot_control_the_terminal(text: str) -> None:
    assert all(unusable(character) is None for character in shown(text))
