"""Text in the width of a terminal."""

import unicodedata
from itertools import repeat

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich import cells

from forge_cli.core.text import visible
from forge_cli.ui.wrap import cell_len, fit, fit_end, fit_path, rows, wrap

TEXTS = st.text(alphabet="ab  ,漢字、é👍\u0301\u200d", max_size=120)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("short", "short"),
        ("exactly twenty cells", "exactly twenty cells"),
        ("the quick brown fox jumps over it", "the quick brown fox\n  jumps over it"),
        ("one\n\ntwo", "one\n\ntwo"),
        ("x" * 25 + " end", "x" * 20 + "\n  xxxxx end"),
        ("    deep " + "y" * 14, "    deep\n      " + "y" * 14),
        ("    " + "y" * 20, "    " + "y" * 16 + "\n      yyyy"),
        ("日本語の文章はここで、折り返される", "日本語の文章はここ\n  で、折り返される"),
        ("see 日本語の文章 and words", "see 日本語の文章 and\n  words"),
        ("see 日本語の文章はここで", "see 日本語の文章はこ\n  こで"),
    ],
)
def test_lines_are_wrapped_between_words(text: str, expected: str) -> None:
    assert wrap(text, 20, 2) == expected


@example("aaaa \u0301、、、", 10, 0)
@given(TEXTS, st.integers(10, 40), st.integers(0, 30))
def test_wrapping_loses_only_the_blank_at_a_break(text: str, width: int, indent: int) -> None:
    pieces = rows(text, width, indent)
    place = 0
    for piece in pieces:
        place += 0 if text.startswith(piece, place) else 1
        assert text.startswith(piece, place)
        place += len(piece)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


@given(TEXTS, st.integers(12, 40), st.integers(0, 2))
def test_wrapped_row_is_never_wider_than_the_terminal(text: str, width: int, indent: int) -> None:
    assert all(cell_len(row) <= width for row in wrap(text.strip(" "), width, indent).split("\n"))


@given(st.lists(st.text(alphabet="abcdefg", min_size=1, max_size=10), max_size=30))
def test_words_that_fit_are_never_cut(words: list[str]) -> None:
    assert wrap(" ".join(words), 12, 2).split() == words


@given(TEXTS, st.integers(0, 40))
def test_fitted_line_is_not_too_wide_and_unchanged_if_it_fits(text: str, width: int) -> None:
    fitted = fit(text, width)
    assert cell_len(fitted) <= width
    assert (fitted == text) is (cell_len(text) <= width)


def test_cut_text_is_marked() -> None:
    assert (fit("abcdefghij", 8), fit("abc", 2), fit("abc", 0)) == ("abcdefg…", "a…", "")
    assert fit("日本語の文章", 8) == "日本語…"


@example("䷀𝌀")
@given(st.text())
def test_counted_width_is_never_less_than_needed(text: str) -> None:
    shown = visible(text)
    assert cell_len(shown) >= cells.cell_len(shown) or not all(
        map(unicodedata.name, shown, repeat(""))
    )


PATHS = st.lists(
    st.sampled_from(["src", "a_long_name", "漢字", "module.py", "x" * 40]), min_size=1, max_size=12
).map("/".join)


@given(
    PATHS,
    st.sampled_from(["", "pattern ", "x "]),
    st.sampled_from(["", " offset=1 limit=20"]),
    st.integers(1, 90),
)
def test_cut_path_keeps_its_end(path: str, before: str, behind: str, width: int) -> None:
    line = f"{before}{path}{behind}"
    shown = fit_path(line, path, width)
    assert cell_len(shown) <= max(width, 1)
    if cell_len(line) <= width:
        assert shown == line
    elif width >= cell_len(before) + cell_len(behind) + 30:
        assert shown.startswith(f"{before}…")
        assert shown.endswith(path[-9:] + behind)
    assert cell_len(fit_end(path, width)) <= max(width, 1)
    assert path.endswith(fit_end(path, width).removeprefix("…"))
