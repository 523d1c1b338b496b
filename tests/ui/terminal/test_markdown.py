"""Markdown on a terminal: the same however the text is cut into pieces, in any width, and no word of it lost.

Covers forge_cli.ui.tasks.
"""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_cli.ui.terminal.markdown import MarkdownStream, draw_markdown
from forge_cli.ui.wrap import cell_width

TOKENS = [
    "word",
    "snake_case",
    "2",
    " ",
    "  ",
    "\n",
    "\n\n",
    "*",
    "**",
    "***",
    "_",
    "__",
    "`",
    "``",
    "```",
    "~~~",
    "<b>",
]
TOKENS += [
    "# ",
    "## ",
    "#",
    "- ",
    "* ",
    "1. ",
    "> ",
    "| a | b |",
    "|-|-|\n",
    ".",
    "(",
    "[",
    "](u)",
    "日本語",
    "\t",
    "x" * 40,
]
TOKENS += ["---\n", "\n```\n", "\n```py\n", "    code\n", "[r]: u\n", "&amp;"]
TEXTS = st.lists(st.sampled_from(TOKENS), max_size=40).map("".join)
WIDTHS = st.sampled_from([12, 30, 80])
BOLD, DIM, CODE, LINK = (f"\x1b[{code}m" for code in (1, 2, 36, 4))
OFF = "\x1b[0m"


def drawn(*deltas: str, width: int = 80, styled: bool = True) -> str:
    stream = MarkdownStream(lambda: width, styled=styled)
    return "".join(map(stream.feed, deltas)) + stream.end()


@example("word\n\n- \nword\n\n", [], False, 12)
@given(TEXTS, st.lists(st.integers(0, 200), max_size=20), st.booleans(), WIDTHS)
def test_streamed_markdown_is_independent_of_its_chunks(
    text: str, cuts: list[int], styled: bool, width: int
) -> None:
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole = drawn(text, width=width, styled=styled)
    assert drawn(*pieces, width=width, styled=styled) == whole
    assert drawn(*text, width=width, styled=styled) == whole


@example("```word", 12)
@given(TEXTS, WIDTHS)
def test_markdown_loses_no_word_and_fits_the_width(text: str, width: int) -> None:
    shown = drawn(text, width=width, styled=False)
    assert "\x1b" not in shown
    for word in ("word", "日", "<b>", "snake", "code"):
        assert re.sub(r"\s", "", shown).count(word) >= re.sub(r"\s", "", text).count(word)
    if "> " not in text and "- " not in text and "* " not in text and "1. " not in text:
        assert [line for line in shown.split("\n") if cell_width(line) >= width] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\nwords", [f"{BOLD}Title{OFF}", "", "words"]),
        ("**bold** and `code`", [f"{BOLD}bold{OFF} and {CODE}code{OFF}"]),
        ("one\ntwo", ["one", "two"]),
        ("[here](https://a.example)", [f"{LINK}here{OFF} (https://a.example)"]),
        ("<https://a.example>", [f"{LINK}https://a.example{OFF}"]),
        ("![alt](https://a.example)", [f"!{LINK}alt{OFF} (https://a.example)"]),
        ("List<String> and </b>", ["List<String> and </b>"]),
        ("<div>\nx\n</div>", ["<div>", "x", "</div>"]),
        ("&#27;[2J &#x202e;", ["\ufffd[2J \\u202e"]),
        ("- a\n- b", [" • a", " • b"]),
        ("7. a\n8. b", [" 7 a", " 8 b"]),
        ("*.py and snake_case_name", ["*.py and snake_case_name"]),
        ("[r]: https://a.example", ["[r]: https://a.example"]),
        ("> a", [f"{DIM}▌ {OFF}{DIM}a{OFF}"]),
    ],
)
def test_markdown_is_drawn_as_expected(text: str, expected: list[str]) -> None:
    assert draw_markdown(text, 60) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("42.", ["42."]),
        ("1)", ["1)"]),
        ("-", ["-"]),
        ("The answer:\n\n42.\n\nok", ["The answer:", "", "42.", "", "ok"]),
        ("In the year\n\n2024.\n2025.", ["In the year", "", "2024.", "2025."]),
        ("- 42.\n- 7.", [" • 42.", " • 7."]),
        ("- a\n-\n- b", [" • a", " •", " • b"]),
        ("1. a\n   1.\n2. b", [" 1 a", "   1.", " 2 b"]),
        ("> 42.", [f"{DIM}▌ {OFF}{DIM}42.{OFF}"]),
        ("| a |\n|---|\n| 1. |", None),
        (">", [">"]),
        ("# ", ["#"]),
        ("[]()", ["[]()"]),
    ],
)
def test_markup_without_content_is_drawn_as_text(text: str, expected: list[str] | None) -> None:
    """An answer that is no more than ``42.`` must not look like an empty one."""
    shown = draw_markdown(text, 60)
    assert shown == expected or (expected is None and any("1." in row for row in shown))


MARKS = st.sampled_from(
    ["42.", "7)", "-", "*", "+", ">", "#", " ", "\n", "\n\n", "  ", "[]()", "**", "` ", "|", "word"]
)


@given(st.lists(MARKS, max_size=12).map("".join), st.booleans())
def test_every_text_has_visible_output(text: str, styled: bool) -> None:
    for block in filter(str.strip, text.split("\n\n")):
        assert "".join(drawn(block, styled=styled)).strip(), block
    for number in re.findall(r"(?m)^(\d+[.)])$", text):
        assert number in drawn(text, styled=False)


def test_task_lists_have_boxes() -> None:
    text = (
        "- [x] done\n- [ ] *open*\n  - [X] inner\n- plain [x] no\n- [y] no\n- [x]no\n\n[x] none\n"
    )
    assert draw_markdown(text, 40, styled=False) == [
        " • ☑ done",
        " • ☐ *open*",
        "    • ☑ inner",
        " • plain [x] no",
        " • [y] no",
        " • [x]no",
        "",
        "[x] none",
    ]


def test_table_has_columns_and_is_wrapped_inside_of_them() -> None:
    table = "| customer | total |\n|---|--:|\n| Alice of the long name | 12 |\n| 日本 | 3 |\n"
    shown = drawn(table, width=30, styled=False).splitlines()
    assert shown == [
        " customer              total",
        " ───────────────────────────",
        " Alice of the long        12",
        " name",
        " 日本                      3",
    ]
    long = "| a | b |\n|---|---|\n| ランプとペンと紙とランプとペンと紙 | a_name_that_is_longer_than_its_column |\n"
    whole = re.sub(r"\s", "", drawn(long, width=30, styled=False))
    assert "…" not in whole
    assert sum(whole.count(letter) for letter in "ランプとペンと紙") >= len("ランプとペンと紙") * 2


def test_code_is_coloured_or_keeps_its_fences() -> None:
    code = "```python\ndef one():\n    return 1\n```\n"
    assert re.sub(r"\x1b\[[\d;]*m", "", drawn(code)) == "def one():\n    return 1\n"
    assert drawn(code).count("\x1b[") > 4
    assert (
        re.findall(r"\x1b\[(?:\d;)?(?:9\d|34)m", drawn(code)) == []
    )  # they cannot be read on every background
    assert drawn(code, styled=False) == code
    marked = "**bold** *leaning* ~~struck~~ `code`"
    assert drawn(marked, styled=False) == f"{marked}\n"


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "every word stands whole in its row here",
            ["every word", "stands whole in", "its row here"],
        ),
        ("日本語の文章は単語の間に空白がない", ["日本語の文章は", "単語の間に空白", "がない"]),
        ("- one two three four", [" • one two", "   three four"]),
    ],
)
def test_rows_are_wrapped_between_words(text: str, rows: list[str]) -> None:
    assert drawn(text, width=16).splitlines() == rows


def test_block_is_printed_when_complete_and_drawn_until_then() -> None:
    stream = MarkdownStream(lambda: 60)
    assert (stream.feed("One **bo"), stream.open_lines()) == ("", ["One **bo"])
    assert (stream.feed("ld**\n"), stream.open_lines()) == ("", [f"One {BOLD}bold{OFF}"])
    assert (stream.feed("\n```py\n"), stream.open_lines()) == (f"One {BOLD}bold{OFF}\n", [])
    stream.feed("".join(f"line{number}\n" for number in range(500)))
    assert 50 < len(stream.open_lines()) < 200
    assert "line499" in stream.open_lines()[-1]
    assert stream.feed("```\n").count("line") == 500
    assert stream.open_lines() == []
    stream.feed("void")
    stream.drop()
    assert stream.end() == ""


@pytest.mark.parametrize("line", ["word " * 16, "word " * 15 + "\n"])
def test_long_paragraph_shows_its_end_while_it_grows(line: str) -> None:
    text = line * 500
    stream = MarkdownStream(lambda: 80, styled=False)
    printed = "".join(stream.feed(text[start : start + 50]) for start in range(0, len(text), 50))
    shown = stream.open_lines()
    assert 20 < len(shown) < 100
    assert shown[-1].endswith("word")
    assert f"{printed}{stream.end()}".splitlines() == draw_markdown(text, 79, styled=False)
