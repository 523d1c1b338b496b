"""Light Markdown, streamed: the same however the text is cut into pieces, and no word of it lost."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.ui.terminal.markdown import MarkdownStream

TOKENS = ["word", "snake_case", "2", " ", "  ", "\n", "\n\n", "*", "**", "***", "_", "__", "`", "``", "```", "~~~"]
TOKENS += ["# ", "## ", "#", "- ", "* ", "1. ", "> ", "| a | b |", ".", ",", "(", ")", "日本語", "、", "\t", "x" * 40]
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=40).map("".join)
BOLD, DIM, ITALIC, CODE = (f"\x1b[{code}m" for code in (1, 2, 3, 36))
OFF = "\x1b[0m"


def drawn(*deltas: str, width: int | None = None, styled: bool = True) -> str:
    stream = MarkdownStream(lambda: width, styled=styled)
    return "".join(map(stream.feed, deltas)) + stream.end()


@given(TEXTS, st.lists(st.integers(0, 200), max_size=20), st.booleans(), st.sampled_from([None, 12, 30]))
def test_it_does_not_matter_how_the_text_is_cut_into_pieces(
    text: str, cuts: list[int], styled: bool, width: int | None
) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole = drawn(text, width=width, styled=styled)
    assert drawn(*pieces, width=width, styled=styled) == whole
    assert drawn(*text, width=width, styled=styled) == whole


@given(TEXTS, st.sampled_from([None, 12, 30]))
def test_without_styles_the_words_are_unchanged(text: str, width: int | None) -> None:
    shown = drawn(text, width=width, styled=False)
    assert re.sub(r"[\s>]", "", shown) == re.sub(r"[\s>]", "", text)
    assert width is not None or shown.split() == text.split()


@given(TEXTS)
def test_with_styles_only_marks_are_left_out(text: str) -> None:
    shown = re.sub(r"\x1b\[[\d;]*m", "", drawn(text))
    assert re.sub(r"[\s#*_`]", "", shown) == re.sub(r"[\s#*_`]", "", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("some **bold** word", f"some {BOLD}bold{OFF} word"),
        ("**two words**.", f"{BOLD}two{OFF} {BOLD}words{OFF}."),
        (
            "*so*, `x = *y*` and ***all***",
            f"{ITALIC}so{OFF}, {CODE}x{OFF} {CODE}={OFF} {CODE}*y*{OFF} and \x1b[1;3mall{OFF}",
        ),
        ("**a `b` c**", f"{BOLD}a{OFF} \x1b[1;36mb{OFF} {BOLD}c{OFF}"),
        ("_some words_", f"{ITALIC}some{OFF} {ITALIC}words{OFF}"),
        ("# Title #\ntext", f"{BOLD}Title{OFF}\ntext"),
        ("- one\n* two\n1. three", "- one\n* two\n1. three"),
        ("> said", f"{DIM}> {OFF}{DIM}said{OFF}"),
        ("```py\nx = **1**\n```\nend", f"{DIM}```py{OFF}\n{CODE}x = **1**{OFF}\n{DIM}```{OFF}\nend"),
        ("~~~\n```\n~~~", f"{DIM}~~~{OFF}\n{CODE}```{OFF}\n{DIM}~~~{OFF}"),
        ("| a  | **b** |\n|---|---|", "| a  | **b** |\n|---|---|"),
    ],
)
def test_what_is_drawn(text: str, expected: str) -> None:
    assert drawn(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2 * 3 * 4 and 2**3**4",
        "__init__.py, _private_ and snake_case_name",
        "*.py and src/*.js, f(*args, **kwargs)",
        "an **open mark",
        "a `tick alone",
        "#hash, and ####### seven",
        "---",
        "**far " + "x" * 300 + " away**",
        "[a link](https://example.org/a_b_c)",
        "\\x1b[2J stays visible",
    ],
)
def test_what_is_no_mark_stays(text: str) -> None:
    assert drawn(text) == text


def test_rows_continue_under_their_own_text() -> None:
    text = "- an item that is long\n> a quote that is long\n1. numbered and long too\nplain words that are long"
    assert drawn(text, width=14, styled=False).split("\n") == [
        *("- an item that", "  is long", "> a quote that", "> is long"),
        *("1. numbered", "   and long", "   too", "plain words", "that are long"),
    ]


def test_code_and_tables_are_not_wrapped() -> None:
    text = "```\na line of code that is long\n```\n| a | row | that | is | long |"
    assert drawn(text, width=10, styled=False) == text


def test_what_is_certain_is_not_held_back() -> None:
    stream = MarkdownStream()
    fed = [stream.feed(piece) for piece in ("one ", "tw", "o three", " **bo", "ld** 日", "本語", "\n# He", "ad\n")]
    assert fed == ["one", "", " two", " three", f" {BOLD}bold{OFF}", " 日本", "語\n", f"{BOLD}Head{OFF}\n"]


def test_after_its_end_a_stream_begins_anew() -> None:
    stream = MarkdownStream()
    assert stream.feed("```\ncode") + stream.end() == f"{DIM}```{OFF}\n{CODE}code{OFF}"
    assert stream.feed("**b**") + stream.end() == f"{BOLD}b{OFF}"
