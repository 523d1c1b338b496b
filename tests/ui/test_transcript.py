"""A conversation shown from its log: text stays text, on a terminal, in Markdown and on a page.

Covers forge_cli.ui.transcript.entries, forge_cli.ui.transcript.markdown, forge_cli.ui.html.entries,
forge_cli.ui.transcript.terminal.
"""

import base64
import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from forge_cli import ApprovalDecision, ApprovalRequest, Custom, Diff, Text
from forge_cli.core.actions import ApprovalResponse, CommandEvent, Interrupt, UserInput
from forge_cli.core.errors import Mark
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ContextUsage,
    Event,
    InputPrompt,
    MessageEvent,
    NetworkAccess,
    SessionEnd,
    SessionStart,
    StatusEvent,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    WorkerUpdate,
)
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import ResultValue
from forge_cli.core.text import local_time, readable, visible
from forge_cli.core.trial import CommandTried, TriedWant
from forge_cli.core.wire import JsonObject
from forge_cli.events import Attachment, Message, ToolCall, Usage
from forge_cli.record.line import Line
from forge_cli.results import DisplayHints, FileContent, Table
from forge_cli.ui.html.entries import page
from forge_cli.ui.transcript.entries import Called, Noted, Said, Transcript, read_transcript
from forge_cli.ui.transcript.markdown import markdown
from forge_cli.ui.transcript.terminal import draw
from tests.support.lines import CHILD, lines_of

START = SessionStart("m", "/w", "interactive")
NASTY = st.text(
    st.one_of(st.sampled_from("`~<>&\"'*_#|\\\n\t-+[]!"), st.characters()), max_size=40
) | st.sampled_from(["```", "~~~~", "</pre>", "<!--", "\x1b[2J", "\u202e", "\ud800", "\u2028# no"])


MARKDOWN = frozenset(
    [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "strong",
    ]
) | frozenset(
    [
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
        "span",
        "dl",
        "dt",
        "dd",
        "details",
        "summary",
    ]
)
"""What the words of a worker may become."""


def told(*events: Event) -> Transcript:
    return read_transcript(lines_of(START, *events))


def said(
    role: Literal["user", "assistant"], content: str, *calls: ToolCall, **more: Any
) -> MessageEvent:
    return MessageEvent(Message(role, content, calls, **more))


def decided(call: str, reason: str = "") -> ApprovalDecided:
    return ApprovalDecided(call, "ask", True, "user", None, None, reason, cached=False)


def drawn(conversation: Transcript) -> str:
    out = io.StringIO()
    draw(conversation, Console(file=out, highlight=False, soft_wrap=True, width=80))
    return out.getvalue()


def with_text(text: str) -> Transcript:
    """A conversation that has this text everywhere."""
    return told(
        said("user", text, attachments=(Attachment(text, "text/plain", b""),)),
        said("assistant", text, ToolCall("c", text, {text: text})),
        decided("c", text),
        ToolResult("c", text, "error", Text(text), 0, f"bad {text}"),
        StatusEvent("warning", text),
        SessionEnd({"status": "failed", "turns": 1, "tool_calls": 1, "error": text}),
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
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")


@example("0\xa00\n")
@given(NASTY)
def test_text_in_a_page_is_escaped(text: str) -> None:
    plain, nasty = Parsed(page(with_text("word"))), Parsed(page(with_text(text)))
    assert nasty.open == []
    assert nasty.tags <= plain.tags | MARKDOWN
    if text.strip():
        assert readable(text.strip("\n")) in nasty.words


@given(NASTY)
def test_text_in_markdown_is_escaped(text: str) -> None:
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
def test_text_on_a_terminal_is_escaped(text: str) -> None:
    shown = drawn(with_text(text))
    needed = set("\xa0\u202f\u3000\u200c\u200d\ufe0e\ufe0f") | {
        char for char in shown if "\U0001f000" <= char <= "\U0001fbff"
    }
    bare = "".join(char for char in shown if char not in needed)
    assert [char for char in bare if visible(f"a{char}", keep="\n\t") != f"a{char}"] == []
    shown.encode()


def test_call_shows_all_its_events() -> None:
    call = ToolCall("c", "pay", {"to": "Ana"})
    request = ApprovalRequest(
        "approval_1",
        "c",
        "pay",
        call.args,
        "w wants to call pay",
        "it asks",
        "high",
        None,
        Mark("a", 1, 2),
    )
    events = [
        said("assistant", "", call),
        ToolStarted("c", "pay", call.args),
        ApprovalRequired(request),
    ]
    speaker, waiting = told(*events).entries
    assert speaker == Said("w", "")
    asks = "asks: it asks (a:1:2); approval_1"
    assert waiting == Called(
        "pay", {"to": "Ana"}, verdict=f"{asks} waits for an answer", started=True
    )
    stopped = ToolResult("c", "pay", "interrupted", Text(INTERRUPTED_CALL), 0, INTERRUPTED_CALL)
    _, ended = told(*events, stopped).entries
    assert isinstance(ended, Called)
    assert (ended.verdict, ended.ending()) == (f"{asks} was not answered", "interrupted")
    no = ApprovalResponse("approval_1", ApprovalDecision(False, note="no money"))
    _, answered = told(*events, no).entries
    assert isinstance(answered, Called)
    assert answered.verdict == "asks: it asks (a:1:2); answered no: no money"


def test_two_workers_may_use_the_same_call_ids() -> None:
    entries = told(
        said("assistant", "Go.", ToolCall("c", "t", {})),
        WorkerUpdate("started", "w", "c", origin=CHILD),
        replace(said("user", "the task"), origin=CHILD),
        replace(said("assistant", "", ToolCall("c", "inner", {})), origin=CHILD),
        ToolResult("c", "t", "success", Text("outer result"), 0),
    ).entries
    assert entries[0] == Said("w", "Go.")
    assert isinstance(entries[1], Called)
    assert (entries[1].tool, entries[1].status) == ("t", "success")
    assert entries[2] == Noted("child started", 1)
    assert entries[3:] == [
        Said("w", "the task", depth=1),
        Said("child", "", depth=1),
        Called("inner", {}, 1),
    ]


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (StatusEvent("info", "fine"), None),
        (StatusEvent("warning", "hm"), "warning: hm"),
        (Interrupt("terminated"), "terminated"),
        (ContextUsage(1, 2), None),
        (
            ContextUsage(1, 2, ("a", "b")),
            "the history was shortened: the results of 2 calls were removed",
        ),
        (
            ContextUsage(1, 2, None, 4),
            "the history was shortened: a summary replaces 4 messages",
        ),
        (
            NetworkAccess("a.example", 80, True, "user", "c"),
            "network: a.example:80 allowed by user",
        ),
        (
            CommandTried(
                "c", "incomplete", 7, 100, wanted=(TriedWant("network", "one.example:443"),)
            ),
            "tried: it wanted the network (one.example:443) (exit code 7, 0.1 s)",
        ),
        (InputPrompt("r", "Who?"), "asks: Who?"),
        (UserInput("r", "Me"), None),
        (ContextUsage(0, 2, cleared=True), "the model starts with an empty history"),
        (SessionEnd({"status": "limit", "turns": 2, "tool_calls": 1}), "limit: 0 turns, 0 calls"),
        (SessionEnd({"status": "odd", "turns": "x"}), "odd: 0 turns, 0 calls"),
        (TurnEndEvent(1, "end", Usage()), None),
    ],
)
def test_notable_events_are_shown(event: Event, text: str | None) -> None:
    assert [entry.text for entry in told(event).entries if isinstance(entry, Noted)] == (
        [] if text is None else [text]
    )


def test_command_effect_is_shown_and_a_warning_is_marked() -> None:
    done = StatusEvent("info", "a.md restored")
    assert told(done).entries == []
    assert told(CommandEvent("undo"), done).entries == [Noted("a.md restored")]
    assert told(CommandEvent("undo"), MessageEvent(Message("user", "x")), done).entries == [
        Said("user", "x")
    ]
    assert told(StatusEvent("error", "no")).entries == [Noted("error: no", level="error")]


JSON = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.lists(st.integers())
    | st.dictionaries(st.text(), st.text())
)


@given(st.data())
def test_damaged_line_is_named_and_the_rest_is_shown(data: st.DataObject) -> None:
    lines = lines_of(
        START,
        *[said("assistant", "a", ToolCall("c", "t", {})), decided("c"), said("user", "the end")],
    )
    place = data.draw(st.integers(1, 2))
    key = data.draw(
        st.sampled_from([key for key in lines[place].data if key not in ("v", "seq", "type")])
    )
    broken = {**lines[place].data, key: data.draw(JSON)}
    transcript = read_transcript(
        [*lines[:place], Line(broken, Mark("log", place + 1)), *lines[place + 1 :]]
    )
    assert transcript.entries[-1] == Said("user", "the end")
    drawn(transcript)
    markdown(transcript)
    page(transcript)


def test_resumed_session_shows_what_is_new() -> None:
    first, second, third = lines_of(
        START, START, replace(START, workspace="/other", model="n", forked_from="old")
    )
    entries = read_transcript([first, second, third]).entries
    times = [local_time(line.time) for line in (second, third)]
    assert entries == [
        Noted(f"resumed at {times[0]}"),
        Noted(f"resumed at {times[1]}, as a copy of old, in /other, with n"),
    ]


def told_result(value: ResultValue) -> Transcript:
    return told(
        said("assistant", "", ToolCall("c", "look", {})),
        ToolResult("c", "look", "success", value, 0),
    )


@pytest.mark.parametrize(
    "value",
    [
        Text("secret", DisplayHints("hidden")),
        Diff(
            "/secret", None, "secret", is_new=True, bytes_written=6, display=DisplayHints("hidden")
        ),
        Custom("a.b", ["secret"], "secret", display=DisplayHints("hidden")),
    ],
)
@pytest.mark.parametrize("show", [drawn, markdown, page])
def test_result_for_the_model_only_is_not_shown(
    value: ResultValue, show: Callable[[Transcript], str]
) -> None:
    assert "secret" not in show(told_result(value))
    assert "secret" in show(told_result(replace(value, display=None)))


def test_page_folds_and_limits_results_by_their_hints() -> None:
    folded = '<details class="fold"><summary>1 line</summary><pre class="text">one'
    assert folded in page(told_result(Text("one", DisplayHints(collapsed=True))))
    long = "\n".join(map(str, range(50)))
    assert "<details" in page(told_result(Text(long)))
    assert "<details" not in page(told_result(Text(long, DisplayHints(collapsed=False))))
    assert '<pre class="text short">' in page(told_result(Text(long, DisplayHints(max_height=7))))


def test_patch_is_coloured_on_a_page_and_named_in_markdown() -> None:
    patch = Custom("a.b", "-old\n+new", mime_type="text/x-diff")
    assert '<span class="minus">-old</span>\n<span class="plus">+new</span>' in page(
        told_result(patch)
    )
    assert "```diff\n-old\n+new\n```" in markdown(told_result(patch))
    assert "```python\nx = 1\n```" in markdown(
        told_result(Text("x = 1", DisplayHints("code", "python")))
    )
    assert "```text\nx = 1\n```" in markdown(
        told_result(Text("x = 1", DisplayHints("code", "a b\nc")))
    )


def test_table_is_markdown_and_can_be_saved_from_a_page() -> None:
    table = Table(("id", "name"), ((1, "a|<b>"),), count=3, summary="people")
    assert "people; and 2 more rows\n\n| id | name |\n|---|---|\n| 1 | a\\|\\<b\\> |" in markdown(
        told_result(table)
    )
    shown = page(told_result(table))
    assert "<td>1</td><td>a|&lt;b&gt;</td>" in shown
    [saved] = re.findall(
        r'download="table.csv" href="data:text/csv;charset=utf-8;base64,([^"]+)"', shown
    )
    assert base64.b64decode(saved).decode() == "id,name\n1,a|<b>\n"


PATCH = "*** Begin Patch\n*** Update File: a.py\n-old <b>\n+new\n*** End Patch\n"


def told_call(args: JsonObject, value: ResultValue | None = None) -> Transcript:
    return told(
        said("assistant", "", ToolCall("c", "work", args)),
        ToolResult("c", "work", "success", value or Text("done"), 0),
    )


def test_args_are_exported_as_written() -> None:
    call = told_call({"path": "a.py", "input": PATCH, "timeout": None})
    shown = page(call)
    assert "<b>work</b></code></p>" in shown
    assert "<dt>path</dt><dd><code>&quot;a.py&quot;</code></dd>" in shown
    assert '<span class="minus">-old &lt;b&gt;</span>\n<span class="plus">+new</span>' in shown
    assert "timeout" not in shown
    assert f'```yaml\npath: "a.py"\n```\n\n```diff\n{PATCH}```' in markdown(call)
    command = told_call({"command": "for x in 1 2; do\n  echo $x\ndone\n"})
    assert "for x in 1 2; do\n  echo $x\ndone" in Parsed(page(command)).text
    assert "```sh\nfor x in 1 2; do\n  echo $x\ndone\n```" in markdown(command)


def test_long_args_on_a_terminal_have_their_own_lines() -> None:
    shown = drawn(told_call({"path": "a.py", "input": PATCH, "command": 'echo "a"\ndone'}))
    lines = [line.rstrip() for line in shown.splitlines()]
    start = lines.index('  > work path="a.py"')
    assert lines[start + 1 : start + 4] == [
        "    input:",
        "      | *** Begin Patch",
        "      | *** Update File: a.py",
    ]
    command = lines.index('    $ echo "a"')
    assert lines[command + 1] == "    > done"


def test_content_shown_in_a_diff_is_not_repeated_as_an_arg() -> None:
    args: JsonObject = {"path": "a.py", "content": "one\ntwo\n"}
    assert page(told_call(args, Diff.of("a.py", None, "one\ntwo\n"))).count("two") == 1
    assert markdown(told_call(args)).count("two") == 1


@pytest.mark.parametrize(
    ("status", "error", "value", "ending"),
    [
        ("success", None, Text("fine"), "success"),
        ("error", "no such file", Text("no such file"), "error: no such file"),
        ("blocked", "work is blocked: by a rule", Text("x"), "blocked: by a rule"),
        ("denied", "work was not called; denied: nobody", Text("x"), "denied: nobody"),
        ("denied", "work was not called; the user said no", Text("x"), "denied: the user said no"),
        ("error", "exit code: 4", Text("out\nexit code: 4"), "error"),
    ],
)
def test_end_of_a_call_is_stated_once(
    status, error: str | None, value: ResultValue, ending: str
) -> None:
    (call,) = told(ToolResult("c", "work", status, value, 0, error=error)).entries
    assert isinstance(call, Called)
    assert call.ending(call.shown.text() if call.shown else "") == ending
    assert ending in drawn(told(ToolResult("c", "work", status, value, 0, error=error)))


def test_terminal_transcript_folds_reads_and_draws_text() -> None:
    file = io.StringIO()
    console = Console(
        file=file, width=40, force_terminal=True, soft_wrap=True, color_system="standard"
    )
    content = FileContent("a.py", "one\ntwo\n", 8)
    draw(
        told(
            said("assistant", "Some **bold** words."),
            ToolResult("c", "read_file", "success", content, 0),
        ),
        console,
    )
    assert "Some \x1b[1mbold\x1b[0m words." in file.getvalue()
    assert "success · 2 lines" in file.getvalue()
    assert "two" not in file.getvalue()
