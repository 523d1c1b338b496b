"""Text made safe to show, cut, counted, and with the name that was meant."""

import io
import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.text import (
    MORE,
    UNSEEN,
    CutAt,
    counted,
    cut,
    did_you_mean,
    dollars,
    json_for,
    nearest,
    readable,
    visible,
)


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
        ("rm\ufe0f \U000e0100", "rm\\ufe0f \\U000e0100"),
        ("a\xadb\u034fc", "a\\xadb\\u034fc"),
        ("\u115f\u1160\u3164\uffa0\u2800", "\\u115f\\u1160\\u3164\\uffa0\\u2800"),
        ("git\xa0push\u3000x\u2003", "git\\xa0push\\u3000x\\u2003"),
        ("\u0378\uffff", "\\u0378\\uffff"),
        ("e\u0301 Vie\u0302\u0323t", "e\u0301 Vie\u0302\u0323t"),
        ("z\u0300\u0301\u0302\u0303z", "z\u0300\u0301\\u0302\\u0303z"),
        ("a\u200b\u0301", "a\\u200b\\u0301"),
        ("\u0301\u0302", "\\u0301\\u0302"),
        ("\u1000\u103b\u103d\u1014\u103a", "\u1000\u103b\u103d\u1014\u103a"),
    ],
)
def test_visible_escapes_control_and_invisible_characters(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_visible_keeps_given_characters() -> None:
    assert visible("a\nb\tc\r", keep="\n\t") == "a\nb\tc\\r"
    assert visible("a\n\u0301b", keep="\n\t") == "a\n\\u0301b"


@given(st.text(st.characters()))
def test_visible_leaves_no_hidden_character(text: str) -> None:
    shown = visible(text)
    assert not {unicodedata.category(char) for char in shown} & {
        "Cc",
        "Cf",
        "Cs",
        "Co",
        "Cn",
        "Zl",
        "Zp",
    }
    assert {char for char in shown if char.isspace()} <= {" "}
    assert visible(shown) == shown
    shown.encode()


@pytest.mark.parametrize(
    "text",
    [
        "\u2764\ufe0f",
        "\U0001f469\u200d\U0001f469\u200d\U0001f467",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "1\ufe0f\u20e3",
        "\U0001fafd",
        "prix\u202f: 5\xa0\u20ac",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u65e5\u672c\u3000\u8a9e",
        "two\nlines\tand a tab",
    ],
)
def test_readable_keeps_what_emoji_and_scripts_need(text: str) -> None:
    assert readable(text) == text
    assert visible(text) != text


@pytest.mark.parametrize(
    "text", ["rm\u200d", "x\ufe0f", "\u202e", "\x1b", "\u2764\ufe0f\ufe0f", "\u0e01\u200d\u200d"]
)
def test_readable_escapes_the_same_characters_elsewhere(text: str) -> None:
    assert "\\" in readable(text)


def test_readable_piece_depends_on_the_text_before_it() -> None:
    text = "e\u0301 \u2764\ufe0f \u0e17\u0e35\u0e48"
    assert "".join(readable(char, after=text[:at]) for at, char in enumerate(text)) == text
    assert readable("\u0301") == "\\u0301"


@given(
    st.text(st.characters(exclude_characters="\n"), max_size=300),
    st.integers(min_value=80, max_value=150),
)
def test_cut_keeps_head_and_tail_and_states_what_is_missing(text: str, limit: int) -> None:
    shown = cut(text, limit)
    if len(text) <= limit:
        assert shown == text
    else:
        head, missing, tail = re.split(r"\n\[\.\.\. (\d+) characters cut \.\.\.\]\n", shown)
        assert (text.startswith(head), text.endswith(tail)) == (True, True)
        assert int(missing) == len(text) - len(head) - len(tail)
        assert len(head) >= len(tail) > 0


@given(
    st.text(alphabet="ab\n", max_size=300),
    st.integers(min_value=0, max_value=200),
    st.sampled_from(["lines", "middle", "end"]),
    st.sampled_from([None, MORE, "cut"]),
)
def test_cut_text_is_never_longer_than_its_limit(
    text: str, limit: int, at: CutAt, mark: str | None
) -> None:
    shown = cut(text, limit, at, mark=mark)
    assert shown == text or len(text) > limit >= len(shown)


def test_cut_without_room_for_its_mark_ends_with_an_ellipsis() -> None:
    assert [cut("x" * 100, limit) for limit in (0, 1, 20)] == ["", "…", "x" * 19 + "…"]


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("lines", "a" * 33 + "\n[... 51 characters cut ...]\n" + "z" * 16),
        ("middle", "a" * 37 + " ... " + "z" * 37),
        ("end", "a" * 50 + "z" * 27 + "..."),
    ],
)
def test_text_is_cut_in_the_middle_or_at_the_end(at: CutAt, shown: str) -> None:
    assert cut("a" * 50 + "z" * 50, 80, at) == shown


def test_notice_can_state_the_omitted_length() -> None:
    assert cut("x" * 100, 60, "end", mark=MORE) == "x" * 35 + "... [65 more characters]"


@pytest.mark.parametrize(
    ("name", "near"),
    [("shel", "shell"), ("filesytem", "filesystem"), ("zzz", None), ("", None), ("shell", "shell")],
)
def test_nearest_name_is_found(name: str, near: str | None) -> None:
    assert nearest(name, ["shell", "filesystem", "custom"]) == near
    assert nearest(f"--{name}", ["--shell", "--filesystem", "--custom"]) == (near and f"--{near}")


@pytest.mark.parametrize(
    ("name", "known", "otherwise", "said"),
    [
        ("shel", ["shell", "custom"], None, "did you mean 'shell'?"),
        ("shel", ["shell", "custom"], "look it up", "did you mean 'shell'?"),
        ("zzz", ["shell", "custom"], None, "there are: shell, custom"),
        ("zzz", [], None, "there are: none"),
        ("zzz", ["shell"], "look it up", "look it up"),
        ("zzz", ["shell"], "", ""),
    ],
)
def test_did_you_mean_names_one_or_lists_all(
    name: str, known: list[str], otherwise: str | None, said: str
) -> None:
    assert did_you_mean(name, known, otherwise) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 calls"), (1, "1 call"), (2000, "2,000 calls"), (0.5, "0.5 calls")]
)
def test_counted_uses_the_plural_except_for_one(number: float, said: str) -> None:
    assert counted(number, "call") == said


def test_dollars_are_rounded() -> None:
    amounts = {
        0: "$0",
        0.00000042: "$0.00000042",
        0.00042: "$0.00042",
        0.001: "$0.001",
        0.00996: "$0.01",
    }
    amounts |= {0.019: "$0.02", 0.25: "$0.25", 2: "$2.00", 1234.5: "$1,234.50"}
    assert {cost: dollars(cost) for cost in amounts} == amounts


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@given(st.text() | st.text('a\x1b\x7f\x9b\u202e\u115f\U000e0041\ud800😀\n"\\'))
def test_json_on_a_terminal_is_escaped_and_complete(text: str) -> None:
    written = json.dumps({text: [text]}, ensure_ascii=False, indent=2)
    assert json_for(io.StringIO(), written) == written
    shown = json_for(Terminal(), written)
    assert json.loads(shown) == {text: [text]}
    assert all(char == "\n" or (char.isprintable() and char not in UNSEEN) for char in shown)
