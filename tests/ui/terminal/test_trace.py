"""The trace: each level shows more, every event is one line, and all text is escaped."""

import io
import re
import struct
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from forge_cli import Custom, Diff, Text, trace_formatter
from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import Mark
from forge_cli.core.event_kinds import OtherEvent
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ContextUsage,
    Event,
    GrantsEvent,
    InputPrompt,
    ManualToolsAvailable,
    MessageEvent,
    ModeChanged,
    NetworkAccess,
    Origin,
    SessionEnd,
    SessionStart,
    SessionUpdate,
    StatusEvent,
    Streaming,
    ToolOutput,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
    TurnStart,
    WorkerUpdate,
)
from forge_cli.core.notify import RunningCommand, StatusNotice
from forge_cli.core.results import ResultValue
from forge_cli.core.trial import CommandTried, DraftEvent, TriedChange
from forge_cli.events import Attachment, Message, Usage
from forge_cli.results import DisplayHints
from forge_cli.ui.terminal.trace import format_tokens, summarize
from tests.support.approval import new_request
from tests.support.kinds import result_strategies
from tests.support.rows import each_row

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 1280, 800) + bytes(8)
RESULT = {"status": "completed", "turns": 2, "toolCalls": 1, "denials": [], "durationMs": 1234}
DECIDED = ApprovalDecided(
    "c1",
    verdict="ask",
    approved=False,
    by="user",
    rule="r",
    where=Mark("w.yaml", 3, 5),
    reason="because",
    cached=False,
)
CHILD = Origin("child", 1, "task_1", ("boss", "child"))
REQUEST = new_request()
NEVER = 9
EVENTS: list[tuple[Event, int, str]] = [
    (StatusEvent("error", "it broke"), 0, "error: it broke\n"),
    (StatusEvent("warning", "take care"), 1, "warning: take care\n"),
    (StatusEvent("info", "by the way"), 1, "by the way\n"),
    (
        StatusEvent("info", "commands: confined (bwrap), says a tool"),
        1,
        "commands: confined (bwrap), says a tool\n",
    ),
    (
        StatusEvent.of("info", StatusNotice("commands: confined", "confinement")),
        2,
        "commands: confined\n",
    ),
    (
        MessageEvent(
            Message(
                "user", "look", attachments=(Attachment("a\x1b.txt", "text/plain", b"x" * 4000),)
            )
        ),
        1,
        "attached: a\\x1b.txt (4 KB, about 1,000 tokens)\n",
    ),
    (
        MessageEvent(
            Message("user", "look", attachments=(Attachment("shot.png", "image/png", PNG),))
        ),
        1,
        "attached: shot.png (32 bytes, 1280x800, about 1,365 tokens)\n",
    ),
    (
        MessageEvent(
            Message("user", "look", attachments=(Attachment("a.pdf", "application/pdf", b"%PDF"),))
        ),
        1,
        "attached: a.pdf (4 bytes)\n",
    ),
    (
        StatusEvent("warning", "the MCP server x is not there: no"),
        1,
        "warning: the MCP server x is not there: no\n",
    ),
    (
        StatusEvent.of("warning", StatusNotice("it is gone", "server", urgent=True)),
        0,
        "warning: it is gone\n",
    ),
    (
        SessionEnd({**RESULT, "usage": {"inputTokens": 5, "outputTokens": 7}}),
        1,
        "completed · 2 turns · 1 call · 5 in, 7 out · 1.2 s\n",
    ),
    (
        SessionEnd({**RESULT, "turns": 1, "toolCalls": 3, "denials": [{}, {}]}),
        1,
        "completed · 1 turn · 3 calls (2 refused) · 1.2 s\n",
    ),
    (StatusEvent("info", "halfway", tool_call_id="c1", progress=0.5), 2, "  50% halfway\n"),
    (StatusEvent("info", "working", tool_call_id="c1"), 2, "  working\n"),
    (ToolStarted("c1", "echo", {"text": "a b", "n": [1]}), 3, '> echo text="a b" n=[1]\n'),
    (ToolStarted("c1", "echo", {}), 3, "> echo\n"),
    (
        ToolStarted("c1", "echo", {"x": "y" * 500}),
        3,
        f'> echo x="{"y" * 174}... [327 more characters]\n',
    ),
    (
        SessionStart("script:x", "/w", "interactive"),
        3,
        "model script:x, workspace /w, approval mode interactive\n",
    ),
    (
        SessionUpdate(title="Ferns", model="script:y"),
        3,
        "from now on: title Ferns, model script:y\n",
    ),
    (SessionUpdate(zones=()), NEVER, ""),
    (GrantsEvent(()), NEVER, ""),
    (DraftEvent("d1", "open"), NEVER, ""),
    (ModeChanged("acceptEdits"), 3, "from now on: mode accept edits\n"),
    (
        ManualToolsAvailable(({"name": "deploy"}, {"name": "push"})),
        3,
        "tools for people: deploy, push\n",
    ),
    (
        TurnStart(1, "0123456789abcdef", ("a", "b")),
        3,
        "turn 1: request 0123456789ab, tools: a, b\n",
    ),
    (
        TurnStart(1, "0123456789abcdef", ("a",), refresh_ms=1.5),
        3,
        "turn 1: request 0123456789ab, tools (found in 1.5 ms): a\n",
    ),
    (TurnStart(1, "0123456789abcdef", ()), 3, "turn 1: request 0123456789ab, tools: none\n"),
    (TurnEndEvent(1, "end", Usage(3, 4)), 3, "turn 1 ended (end): 3 in, 4 out\n"),
    (
        TurnEndEvent(1, "end", Usage(3, 4, 50, 6)),
        3,
        "turn 1 ended (end): 59 in (50 cached), 4 out\n",
    ),
    (ContextUsage(1500, 6000), 3, "the history has 1500 tokens of 6000 (25%)\n"),
    (ContextUsage(1500, None), 3, "the history has 1500 tokens\n"),
    (
        NetworkAccess("a.example", 443, True, "rule", "c1"),
        2,
        "  network: a.example:443 allowed by rule\n",
    ),
    (CommandTried("c1", "noEffect", 0, 210), 2, "  tried: no effect (exit code 0, 0.2 s)\n"),
    (
        CommandTried("c1", "effects", 0, 210, (TriedChange("a", "created"),), applied=True),
        3,
        "  applied: made a\n",
    ),
    (
        CommandTried("c1", "effects", 0, 210, (TriedChange("a", "created"),)),
        3,
        "  tried: changes: 1 (exit code 0, 0.2 s)\n",
    ),
    (
        NetworkAccess("2606::1", 80, False, "user", "c1", "n\x1bo"),
        2,
        "  network: [2606::1]:80 refused by user: n\\x1bo\n",
    ),
    (DECIDED, 3, "  ask -> no by user: because (w.yaml:3:5)\n"),
    (WorkerUpdate("started", "boss", "c1", origin=CHILD), 2, "  child: started by boss\n"),
    (
        WorkerUpdate("completed", "boss", "c1", turns=2, origin=CHILD),
        2,
        "  child: completed · 2 turns\n",
    ),
    (
        WorkerUpdate("failed", "boss", "c1", error="no key", origin=CHILD),
        2,
        "  child: failed: no key\n",
    ),
    (Streaming("s", "text", done=False), NEVER, ""),
    (MessageEvent(Message("user", "hello")), NEVER, ""),
    (ToolOutput("c1", "a line"), NEVER, ""),
    (ApprovalRequired(REQUEST), NEVER, ""),
    (ApprovalResponse("r1", ApprovalDecision(True)), NEVER, ""),
    (InputPrompt("i1", "your name?"), NEVER, ""),
    (UserInput("i1", "Ann"), NEVER, ""),
    (Interrupt("user"), NEVER, ""),
    (ManualToolInvoke("push", {}), NEVER, ""),
    (CommandEvent("clear"), NEVER, ""),
    (OtherEvent("newer", {}), NEVER, ""),
]


def traced(level: str, *events: Event, width: int = 60) -> str:
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False, soft_wrap=True, color_system=None)
    trace = trace_formatter(level, console)  # type: ignore[arg-type]
    for event in events:
        trace(event)
    return file.getvalue()


@each_row(("event", "least", "text"), EVENTS)
def test_each_event_has_a_minimum_trace_level(event: Event, least: int, text: str) -> None:
    for number, level in enumerate(["quiet", "summary", "normal", "debug"]):
        assert traced(level, event) == (text if number >= least else "")


def test_background_commands_are_named_when_they_end() -> None:
    running = RunningCommand(1, "python3 -m http.server", 0), RunningCommand(2, "a\x1bb", 0)
    told = StatusEvent("debug", "commands running: 2", about="commands", running=running)
    none = StatusEvent("debug", "commands running: 0", about="commands", running=())
    end = next(event for event, _, _ in EVENTS if isinstance(event, SessionEnd))
    assert traced("normal", told, end, width=200).startswith(
        "ended 2 background commands: python3 -m http.server; a\\x1bb\n"
    )
    assert "ended" not in traced("normal", told, none, end)
    assert "ended" not in traced("normal", replace(told, origin=CHILD), end)


def test_every_kind_of_event_is_tested() -> None:
    assert {ToolResult, *(type(event) for event, _, _ in EVENTS)} == set(Event.__subclasses__())


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("quiet", []),
        ("summary", []),
        ("normal", ["✓ look it · fine", "✗ look · no"]),
        ("debug", ['> look at="it"', "✓ look · fine · 3 ms", "    fine", "✗ look · no · 2 ms"]),
    ],
)
def test_calls_and_results_depend_on_the_trace_level(level: str, expected: list[str]) -> None:
    started, fine = (
        ToolStarted("c1", "look", {"at": "it"}),
        ToolResult("c1", "look", "success", Text("fine"), 3),
    )
    failed = ToolResult("c2", "look", "error", Text("no"), 2, "no")
    assert traced(level, started, fine, failed).splitlines() == expected


@pytest.mark.parametrize(
    ("verdict", "by", "request_id", "is_shown"),
    [
        ("preApproved", "rule", None, True),
        ("ask", "mode", None, True),
        ("ask", "user", None, True),  # a yes to rule sets, which covers this call
        ("ask", "user", "r1", False),
        ("ask", "memory", None, False),
    ],
)
def test_unasked_changes_are_shown_when_applied(
    verdict: str, by: str, request_id: str | None, is_shown: bool
) -> None:
    started = ToolStarted("c1", "shell", {"command": "make build"})
    decided = replace(
        DECIDED,
        verdict=verdict,  # type: ignore[arg-type]
        approved=True,
        by=by,  # type: ignore[arg-type]
        request_id=request_id,
    )
    change = TriedChange("out", "created")
    applied = CommandTried("c1", "effects", 0, 2, (change,), applied=True)
    shown = traced("normal", started, decided, applied)
    assert ("applied: made out" in shown) == is_shown


def result(
    value: object = Text("hi\nho"), status: str = "success", error: str | None = None
) -> ToolResult:
    return ToolResult("c1", "echo", status, value, 12, error)  # type: ignore[arg-type]


def test_results_depend_on_the_trace_level() -> None:
    assert traced("summary", result()) == ""
    assert traced("normal", result()) == "✓ echo\n    hi\n    ho\n"
    assert traced("debug", result()) == "✓ echo · 12 ms\n    hi\n    ho\n"
    assert traced("normal", result(Text("no"), "denied", "no")) == "⊘ echo · denied: no\n"
    assert traced("normal", result(Text("x", DisplayHints("hidden")))) == "✓ echo\n"
    assert "    +new" in traced("normal", result(Diff.of("/a", None, "new")))


@pytest.mark.parametrize(
    "event",
    [
        StatusEvent("info", "a\x1b[2J\nb"),
        ToolStarted("c", "na\nme\x1b", {"k\ney": "v\nalue\x9b"}),
        result(Text("x"), "error", "a\nb\x1b"),
        TurnStart(1, "x" * 20, ("a\nb",)),
    ],
)
def test_lines_after_the_first_are_indented(event: Event) -> None:
    text = traced("debug", event, width=30)
    assert not set(text) & set("\x1b\x9b\r")
    _, *below = text.splitlines()
    assert [
        line
        for line in below
        if not line.startswith("    " if isinstance(event, ToolResult) else "  ")
    ] == []
    assert "\\n" not in text or isinstance(event, ToolStarted)


def test_secret_is_not_traced_even_if_it_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "correct-horse-battery-staple"
    monkeypatch.setenv("PGPASSWORD", secret)
    file = io.StringIO()
    trace = trace_formatter("debug", Console(file=file, width=200))
    trace(StatusEvent("warning", f"refused: {secret}"))
    trace(ToolStarted("c1", "echo", {"text": "y" * 165 + secret, "more": [f'a "{secret}"']}))
    trace(ToolResult("c1", "echo", "success", Text(f"it is {secret}"), 1))
    trace(
        ToolResult(
            "c1",
            "write",
            "success",
            Diff("a", "old\n", f"{secret}\n", is_new=False, bytes_written=29),
            1,
        )
    )
    trace(
        ToolResult(
            "c1",
            "git",
            "success",
            Custom("git.status", {"url": f"https://me:{secret}@x"}, "done"),
            1,
        )
    )
    trace(
        ToolResult(
            "c1", "echo", "error", Text("x"), 1, f"it broke: {'z' * 980}{secret}{'z' * 2000}"
        )
    )
    assert "horse" not in file.getvalue()
    assert file.getvalue().count("[redacted:PGPASSWORD]") >= 5


HOSTILE = st.text(alphabet=st.characters(codec="utf-8"), max_size=60) | st.sampled_from(
    [
        "\x1b[2J\x1b[H[y]es once, [n]o > ",
        "\x1b]0;title\x07",
        "\x9b31m",
        "a\r\nb\rc",
        "\x1b[31mred\x1b[0m",
        "\u202egnp.exe",
        "\x00\x08",
        "漢字\t" * 9,
        "[bold]x[/]",
        "@@ -1 +1 @@\n-\x1b[1A",
    ]
)
VIEWS = st.sampled_from([None, "text", "markdown", "code", "table", "tree"])
LANGUAGES = st.sampled_from([None, "python", "json", "csv", "diff", "markdown", "checklist"])
HINTS = st.builds(
    DisplayHints,
    VIEWS,
    LANGUAGES | HOSTILE,
    st.none() | st.booleans(),
    st.none() | st.integers(1, 3),
)
DATA = st.recursive(
    HOSTILE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3)
)
MIMES = (
    st.none() | st.sampled_from(["image/png", "text/csv", "text/x-diff", "text/markdown"]) | HOSTILE
)
RESULTS = st.one_of(*result_strategies(HOSTILE, DATA, HINTS, mimes=MIMES).values())
OURS = re.compile(r"\x1b\[[\d;]*m")


def on_terminal(value: ResultValue, level: str, width: int, *, colours: bool) -> str:
    file = io.StringIO()
    system = "256" if colours else None
    console = Console(
        file=file, width=width, height=40, soft_wrap=True, force_terminal=True, color_system=system
    )  # type: ignore[arg-type]
    trace = trace_formatter(level, console)  # type: ignore[arg-type]
    trace(ToolStarted("c1", "echo", {}))
    trace(ToolResult("c1", "echo", "success", value, 1))
    return file.getvalue()


@given(RESULTS, st.sampled_from(["normal", "debug"]), st.sampled_from([40, 80]))
def test_result_cannot_control_the_terminal_or_leave_its_frame(
    value: ResultValue, level: str, width: int
) -> None:
    coloured = on_terminal(value, level, width, colours=True)
    text = on_terminal(value, level, width, colours=False)
    assert OURS.sub("", coloured) == text, "the only escapes are the colours that are ours"
    assert not {"Cc", "Cf", "Cs"} & {
        unicodedata.category(char) for char in text if char not in "\n\u200c\u200d"
    }
    body = [line for line in text.splitlines() if not re.match("[>✓] echo", line)]
    assert [line for line in body if not line.startswith("  │")] == [], (
        "no line passes for one of ours"
    )
    assert [line for line in body if cell_len(line.rstrip()) > width] == []


END = {
    "status": "completed",
    "turns": 3,
    "toolCalls": 5,
    "denials": [],
    "usage": {
        "inputTokens": 1600,
        "outputTokens": 112,
        "cacheReadTokens": 800,
        "cacheWriteTokens": 68,
    },
    "cost": 0.91,
    "durationMs": 14_200,
}
WHOLE = "completed · 3 turns · 5 calls · 2.5k in (800 cached), 112 out · $0.91 · 12 % of the window · 14 s"


def test_summary_that_fits_is_complete() -> None:
    assert summarize(END, 24_000, 200_000) == WHOLE
    assert summarize(END, 24_000, 200_000, width=len(WHOLE)) == WHOLE


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (96, "completed · 3 turns · 5 calls · 2.5k in (800 cached), 112 out · $0.91 · 14 s"),
        (75, "completed · 5 calls · 2.5k in (800 cached), 112 out · $0.91 · 14 s"),
        (60, "completed · 2.5k in (800 cached), 112 out · $0.91 · 14 s"),
        (49, "completed · $0.91 · 14 s"),
        (20, "completed · $0.91"),
        (3, "completed"),
    ],
)
def test_summary_omits_the_least_important_first(width: int, line: str) -> None:
    assert summarize(END, 24_000, 200_000, width=width) == line


def test_summary_omits_unknown_values() -> None:
    unknown = {**END, "usage": {}, "cost": None, "denials": [{}]}
    assert summarize(unknown, 0, None) == "completed · 3 turns · 5 calls (1 refused) · 14 s"
    assert format_tokens({"outputTokens": 3}) == "0 in, 3 out"
