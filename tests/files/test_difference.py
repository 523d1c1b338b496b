"""Diffs in which every difference can be seen."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.files.difference import NO_NEWLINE, unified_diff

BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
ODD = st.text(
    st.sampled_from(["a", "b", " ", "\t", "\\", "r", *BREAKS, "\u200b", "\xa0", "\u0301", "\udcff"])
)


def changed(lines: list[str], sign: str) -> list[tuple[str, bool]]:
    """The lines of one side, and whether a newline is missing at their end."""
    body = [*lines[2:], ""]
    return [(line[1:], after == NO_NEWLINE) for line, after in pairwise(body) if line[0] == sign]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a\r\nb\n", "a\nb\n", ["-a\\r", "+a", " b"]),
        ("a\n", "a", ["-a", "+a", NO_NEWLINE]),
        ("a\n", "", ["-a"]),
        ("a\rb\n", "a\nb\n", ["-a\\rb", "+a", "+b"]),
        ("a\x0cb", "a\x0bb", ["-a\\x0cb", NO_NEWLINE, "+a\\x0bb", NO_NEWLINE]),
        ("a\u2028b\n", "a\x85b\n", ["-a\\u2028b", "+a\\x85b"]),
        ("a\x1c\n", "a\x1d\n", ["-a\\x1c", "+a\\x1d"]),
        ("a\r\n", "a\\r\n", ["-a\\r", "+a\\\\r"]),
        ("a\n", "a  \n", ["-a", "+a\\x20\\x20"]),
        ("\ta\n", "   a\n", ["-\\ta", "+   a"]),
        ("\ta\n", "\t\ta\n", ["-\ta", "+\t\ta"]),
        ("\u0301\n", "\u0300\n", ["-\\u0301", "+\\u0300"]),
    ],
)
def test_difference_shows_the_change(before: str, after: str, shown: list[str]) -> None:
    lines = unified_diff(before, after, "old\n", "new")
    assert lines[:2] == ["--- old\\n", "+++ new"]
    assert lines[2].startswith("@@ ")
    assert lines[3:] == shown


@given(ODD, ODD)
def test_different_texts_look_different(before: str, after: str) -> None:
    lines = unified_diff(before, after, "x", "x")
    assert all("\n" not in line and line.replace("\t", "").isprintable() for line in lines)
    assert (changed(lines, "-") != changed(lines, "+")) == (before != after)
    for stop in (4, 8):
        looks = [
            [(f"+{line}".expandtabs(stop).rstrip(), end) for line, end in changed(lines, s)]
            for s in "-+"
        ]
        assert (looks[0] != looks[1]) == (before != after)
