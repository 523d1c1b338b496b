"""Looking for a text in logs: few lines are parsed, and the same are found as if all of them were.

Covers forge_cli.record.search.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forge_cli import Text
from forge_cli.core.events import Event, MessageEvent, ToolResult
from forge_cli.core.phrases import INTERRUPTED_CALL, UNCERTAIN_CALL
from forge_cli.events import Message
from forge_cli.record.log import session_files
from forge_cli.record.places import sessions_folder
from forge_cli.record.search import find_hits
from tests.support.lines import lines_of

TRICKY = (
    "abfiklnst FIKLNST 019"  # letters that ligatures and others become
    "\u017f\u212aßẞﬀﬁﬃﬅﬆŉǰẖẙẚİıʼ\u0307\u030c\u0331"
    'éÉσςΣµμΐᾳᾼᏸꭰ日😀\n\t"\\/\x1b\x7f\u0085\u2028\ufffd'
)
words = st.text(st.sampled_from(TRICKY), max_size=8)


def search(wanted: str) -> list[dict[str, Any]]:
    return [row for path in session_files() for row in find_hits(path, wanted)]


def plain_search(wanted: str) -> list[dict[str, Any]]:
    """The same with every line looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("forge_cli.record.search.may_contain", lambda data, plain: True)
        return search(wanted)


def write(name: str, *events: Event, end: bytes = b"") -> Path:
    path = sessions_folder() / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line.text() for line in lines_of(*events)).encode() + end)
    return path


@pytest.mark.long
@settings(max_examples=settings().max_examples // 3)
@example([["Fußnote"]], "uSSn")
@example([["Kelvin"]], "kelvin")
@example([["ﬁ", "ﬂ", "ﬃ"]], "f")
@example([["a\nb", 'say "x"', "back\\slash"]], "A\nB")
@example([['say "x"']], '"X"')
@example([["\ufffd x"]], "\ufffd X")
@example([["ΣΑΣ"]], "σας")
@example([["x"]], "\udcff")
@example([["s" * 60]], "s" * 55)
@example([["ß" * 30]], "s" * 59)
@given(st.lists(st.lists(words, max_size=4), max_size=3), words.filter(bool))
def test_search_finds_the_same_as_reading_every_line(logs: list[list[str]], text: str) -> None:
    with TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FORGE_HOME", home)
        for number, said in enumerate(logs):
            events = [
                event
                for each in said
                for event in (
                    MessageEvent(Message("user", each)),
                    ToolResult("c", "t", "success", Text(f"before {each}{text}"), 1),
                )
            ]
            odd = [
                b'{"v": 1, "seq": 9, "type": "status", "message": "\xff%b\xc3'
                % text.encode(errors="replace"),
                b"",
            ]
            write(f"s{number}", *events, end=odd[number % 2])
        for wanted in {text.casefold(), text[1:].casefold(), text[:2].casefold()} - {""}:
            assert search(wanted) == plain_search(wanted)


def test_text_about_an_interrupted_call_is_found(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path))
    stopped = ToolResult("c", "t", "interrupted", Text(INTERRUPTED_CALL), 1, INTERRUPTED_CALL)
    quoted = ToolResult("c", "t", "success", Text(INTERRUPTED_CALL), 1)
    write(
        "s0",
        stopped,
        ToolResult("c", "t", "interrupted", Text(UNCERTAIN_CALL), 1, UNCERTAIN_CALL),
        quoted,
    )
    assert [hit["excerpt"] for hit in search("interrupted")] == [
        "the call was interrupted",
        "the call was interrupted; it may have run before the session was...",
        INTERRUPTED_CALL,
    ]
    assert [hit["line"] for hit in search("may have run")] == [2]
