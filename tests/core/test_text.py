"""Foreign text made safe to show."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("déjà vu, 日本, 😀", "déjà vu, 日本, 😀"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\rb\nc\td", "a\\rb\\nc\\td"),
        ("safe\u202egnp.exe", "safe\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x9b1m", "\\x9b1m"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\ud800", "\\ud800"),
        ("\ue000", "\\ue000"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_a_terminal_would_obey_or_an_eye_would_miss_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_what_is_to_be_kept_stays() -> None:
    assert visible("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"


@given(st.text(st.characters()))
def test_nothing_hidden_is_left(text: str) -> None:
    shown = visible(text)
    assert not {unicodedata.category(char) for char in shown} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    assert visible(shown) == shown
    shown.encode()
