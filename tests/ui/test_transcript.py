"""A conversation told from its log: whatever was said stays words, on a terminal, in Markdown and on a page.

Covers forge_cli.ui.transcript.entries, forge_cli.ui.transcript.markdown, forge_cli.ui.transcript.page,
forge_cli.ui.transcript.terminal.
"""

import io
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from forge_cli.core.text import visible
from forge_cli.ui.transcript.entries import Called, Noted, Said, Transcript, local_time, read_transcript
from forge_cli.ui.transcript.markdown import markdown
from forge_cli.ui.transcript.page import page
from forge_cli.ui.transcript.terminal import draw

START = {"type": "sessionStart", "model": "m", "workspace": "/w", "time": "2026-11-15T09:30:00.107Z"}
NASTY = st.text(st.one_of(st.sampled_from("`~<>&\"'*_#|\\\n\t-+[]!"), st.characters()), max_size=40) | st.sampled_from(
    ["```", "~~~~", "</pre>", "<!--", "\x1b[2J", "\u202e", "\ud800", "\u2028# no"]
)


def told(*lines: dict[str, Any]) -> Transcript:
    return read_transcript({"session": "s", "worker": "w", "depth": 0, **line} for line in (START, *lines))


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def drawn(conversation: Transcript) -> str:
    out = io.StringIO()
    draw(conversation, Console(file=out, highlight=False, soft_wrap=True, width=80))
    return out.getvalue()


def with_text(text: str) -> Transcript:
    """A conversation that has this text everywhere."""
    calls = [{"toolCallId": "c", "toolName": text, "args": {text: text}}]
    return told(
        said("user", text, attachments=[{"name": text}]),
        said("assistant", text, calls=calls),
        {
            "type": "approvalDecided",
            "toolCallId": "c",
            "verdict": "ask",
            "approved": True,
            "by": "user",
            "reason": text,
        },
        {
            "type": "toolResult",
            "toolCallId": "c",
            "toolName": text,
            "status": "error",
            "value": {"kind": "text", "content": text},
            "error": f"bad {text}",
        },
        {"type": "status", "level": "warning", "message": text},
        {"type": "sessionEnd", "result": {"status": "failed", "turns": 1, "tool_calls": 1, "error": text}},
    )


class Parsed(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")


@given(NASTY)
def test_whatever_was_said_stays_words_on_a_page(text: str) -> None:
    plain, nasty = Parsed(page(with_text("word"))), Parsed(page(with_text(text)))
    assert nasty.open == []
    assert nasty.tags <= plain.tags
    if text.strip():
        assert visible(text.strip("\n"), keep="\n\t") in nasty.words


@given(NASTY)
def test_whatever_was_said_stays_words_in_markdown(text: str) -> None:
    document = markdown(with_text(text))
    fence, outside = "", []
    for line in document.split("\n"):
        mark = re.match(r"`{3,}", line)
        if fence and line == fence:
            fence = ""
        elif not fence and mark:
            fence = mark[0]
        elif not fence:
            outside.append(line)
    assert fence == ""
    assert [line for line in outside if line.startswith("#")] == ["# s", "## user", "## w"]
    assert not any(re.match(r"\s*(<|~~~|[-+*] )", line) for line in outside)


@given(NASTY)
def test_whatever_was_said_cannot_repaint_a_terminal(text: str) -> None:
    shown = drawn(with_text(text))
    assert visible(shown, keep="\n\t") == shown
    shown.encode()


def test_a_call_has_everything_that_came_of_it() -> None:
    args = {"toolCallId": "c", "toolName": "pay", "args": {"to": "Ana"}}
    asked = {
        "type": "approvalRequired",
        "requestId": "approval_1",
        "toolCallId": "c",
        "reason": "it asks",
        "where": "a:1:2",
    }
    answer = {"type": "approvalResponse", "requestId": "approval_1", "approved": False, "note": "no money"}
    lines = [said("assistant", "", calls=[args]), {"type": "toolStarted", **args}, asked]
    speaker, waiting = told(*lines).entries
    assert speaker == Said("w", "")
    assert waiting == Called("pay", {"to": "Ana"}, verdict="asks: it asks (a:1:2); approval_1 waits for an answer")
    _, answered = told(*lines, answer).entries
    assert isinstance(answered, Called)
    assert answered.verdict == "asks: it asks (a:1:2); answered no: no money"


def test_two_workers_may_name_their_calls_alike() -> None:
    below = {"worker": "child", "depth": 1, "delegation": "task_1"}
    call = {"toolCallId": "c", "toolName": "t", "args": {}}
    entries = told(
        said("assistant", "Go.", calls=[call]),
        {"type": "workerUpdate", "status": "started", "parent": "w", "toolCallId": "c", **below},
        {**said("user", "the task"), **below},
        {**said("assistant", "", calls=[{**call, "toolName": "inner"}]), **below},
        {"type": "toolResult", **call, "status": "success", "value": {"kind": "text", "content": "outer result"}},
    ).entries
    assert entries[0] == Said("w", "Go.")
    assert isinstance(entries[1], Called)
    assert (entries[1].tool, entries[1].status) == ("t", "success")
    assert entries[2] == Noted("child started", 1)
    assert entries[3:] == [Said("w", "the task", depth=1), Said("child", "", depth=1), Called("inner", {}, 1)]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ({"type": "status", "level": "info", "message": "fine"}, None),
        ({"type": "status", "level": "warning", "message": "hm"}, "warning: hm"),
        ({"type": "interrupt", "reason": "terminated"}, "terminated"),
        ({"type": "contextUsage", "used": 1, "window": 2}, None),
        (
            {"type": "contextUsage", "elided": ["a", "b"]},
            "room was made: the results of 2 calls were taken out of the history",
        ),
        ({"type": "contextUsage", "summarised": 4}, "room was made: a summary stands for 4 messages from here on"),
        ({"type": "inputPrompt", "prompt": "Who?"}, "asks: Who?"),
        ({"type": "userInput", "content": "Me"}, "answers: Me"),
        ({"type": "sessionEnd", "result": {"status": "limit", "turns": 2, "tool_calls": 1}}, "limit: 2 turns, 1 call"),
        ({"type": "turnEnd"}, None),
        ({"type": "invented later"}, None),
    ],
)
def test_what_else_a_reader_should_know(line: dict[str, Any], text: str | None) -> None:
    assert told(line).entries == ([] if text is None else [Noted(text)])


def test_a_session_that_goes_on_says_what_is_new() -> None:
    again = {**START, "workspace": "/other", "model": "n", "forkedFrom": "old"}
    entries = told(START, again).entries
    time = local_time(START["time"])
    assert entries == [Noted(f"goes on at {time}"), Noted(f"goes on at {time}, as a copy of old, in /other, with n")]


@pytest.mark.parametrize("time", [None, "", "yesterday", 7])
def test_a_time_that_is_none_is_left_as_it_is(time: Any) -> None:
    assert local_time(time) == ("" if time is None else str(time))
