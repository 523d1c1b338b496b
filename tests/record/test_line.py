"""A line of a log: every event survives writing and reading, and an invalid line is named by its place."""

import json
import typing
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields as fields_of
from msgspec.structs import replace

from forge_cli import ApprovalDecision, Text
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.errors import Mark
from forge_cli.core.event_kinds import EVENT_KINDS, OtherEvent
from forge_cli.core.events import (
    ApprovalRequired,
    Event,
    MessageEvent,
    SessionStart,
    SessionUpdate,
    StatusEvent,
    ToolResult,
    ToolStarted,
    TurnEndEvent,
)
from forge_cli.core.messages import Summary
from forge_cli.core.results import ResultValue
from forge_cli.events import Attachment, Line, Message, ToolCall
from forge_cli.record import overview, pending
from forge_cli.record.line import BadLine
from forge_cli.record.log import beginning_at_root, line_at, line_prefix
from forge_cli.results import DisplayHints
from tests.support.kinds import result_strategies
from tests.support.lines import CHILD, lines_of

WORDS = st.text(max_size=20)
DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(WORDS, DATA, max_size=3)
HINTS = st.none() | st.builds(
    DisplayHints, language=st.none() | WORDS, collapsed=st.none() | st.booleans()
)
KINDS = st.from_regex(r"[a-z]{2,5}\.[a-z]{2,5}", fullmatch=True)
MARKS = st.builds(Mark, WORDS, st.integers(1, 999), st.integers(1, 999))
CALLS = st.builds(ToolCall, WORDS, WORDS, OBJECTS, st.none() | WORDS)
FILES = st.builds(Attachment, WORDS, st.just("image/png"), st.binary(max_size=9)) | st.builds(
    Attachment, WORDS, st.just("text/plain"), WORDS.map(str.encode)
)
RESULTS = st.one_of(*result_strategies(WORDS, DATA, HINTS, kinds=KINDS).values())
MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "assistant"]),
    WORDS,
    calls=st.lists(CALLS, max_size=2).map(tuple),
    attachments=st.lists(FILES, max_size=2).map(tuple),
    native=st.none() | OBJECTS,
    summary=st.none()
    | st.builds(
        Summary,
        WORDS,
        st.lists(WORDS, max_size=2).map(tuple),
        st.dictionaries(WORDS, WORDS, max_size=2),
    ),
)
DECISIONS = st.builds(
    ApprovalDecision, st.booleans(), st.none() | st.just("session"), st.none() | WORDS
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: WORDS,
    int: st.integers(0, 999),
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    Any: DATA,
    Mark: MARKS,
    Attachment: FILES,
    Message: MESSAGES,
    ApprovalDecision: DECISIONS,
    ResultValue: RESULTS,
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """All values that a field of this type may have."""
    if hint in SCALARS:
        return SCALARS[hint]
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (Union, UnionType):
        rest = [each for each in inner if each is not NoneType]
        whole = rest[0] if len(rest) == 1 else Union[tuple(rest)]  # noqa: UP007
        return st.none() | values(whole)
    if origin is tuple:
        return st.lists(values(inner[0]), max_size=3).map(tuple)
    if origin in (dict, Mapping):
        return st.dictionaries(WORDS, WORDS, max_size=2) if inner[1:] == (str,) else OBJECTS
    return made(hint)


def made(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(kind)
    fields = [
        field.name for field in fields_of(kind) if field.name not in getattr(kind, "off_wire", ())
    ]
    return st.fixed_dictionaries({name: values(hints[name]) for name in fields}).map(
        lambda given: kind(**given)
    )


RECORDED = [kind for kind in EVENT_KINDS.values() if not kind.transient]


FEW = settings(max_examples=settings().max_examples // 5)


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", RECORDED, ids=lambda kind: kind.type)
@FEW
@given(st.data())
def test_every_event_survives_being_written_and_read(
    kind: type[Event], data: st.DataObject
) -> None:
    event = data.draw(made(kind))
    (line,) = lines_of(event)
    again = Line.read(line.text().encode())
    assert again.event == event
    assert again.event.payload() == event.payload()
    assert (again.data, again.intact) == (line.data, True)
    assert line.text() == Line(line.data).text()


def test_session_worker_and_time_are_read_from_the_line() -> None:
    root, child = lines_of(StatusEvent("info", "a"), StatusEvent("info", "b", origin=CHILD))
    assert (root.seq, root.session, root.worker, root.depth, root.delegation) == (
        1,
        "s",
        "w",
        0,
        None,
    )
    assert (child.seq, child.worker, child.depth, child.delegation) == (2, "child", 1, "task_1")
    assert (root.prev, child.prev, child.version) == (None, root.hash, 1)
    assert root.time.endswith("Z")


def test_line_of_a_newer_forge_may_have_more_keys() -> None:
    """Of the same version: keys that are not known are kept and passed over, and so are events."""
    (line,) = lines_of(ToolResult("c", "t", "success", Text("x"), 3))
    more = {**line.data, "cost": 1, "value": {**line.data["value"], "colour": "red"}}
    assert Line(more).event == line.event
    copy = Line(more).copied("other", None)
    assert (copy.session, copy.data["cost"], copy.intact) == ("other", 1, True)
    assert isinstance(Line({**line.data, "type": "invented later"}).event, OtherEvent)
    assert Line({**line.data, "status": "postponed"}).event == replace(
        typing.cast(ToolResult, line.event),
        status="postponed",  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"time": None}, "time: not a text"),
        ({"worker": 5}, "worker: not a text"),
        ({"depth": "0"}, "depth: not a whole number"),
        ({"delegation": 1}, "delegation: not a text"),
        ({"durationMs": True}, "toolResult.durationMs: not a whole number"),
        ({"status": None}, "toolResult.status: not a text"),
        ({"value": "x"}, "toolResult.value: not an object"),
        ({"value": {"kind": "text"}}, "toolResult.value.content: missing"),
        (
            {"value": {"kind": "file_list", "path": "/", "files": "a", "count": 1}},
            "toolResult.value.files: not a list",
        ),
    ],
)
def test_invalid_line_is_reported_with_its_place(change: dict[str, Any], problem: str) -> None:
    (line,) = lines_of(ToolResult("c", "t", "success", Text("x"), 3))
    broken = Line({**line.data, **change}, Mark("log.jsonl", 7))
    with pytest.raises(BadLine, match=f"^log.jsonl:7:1: not a line of a session log: {problem}\n"):
        _ = broken.event


@pytest.mark.long
@FEW
@given(st.data())
def test_overview_finds_events_by_their_byte_prefix(data: st.DataObject) -> None:
    """They are in each line of the event, and in no other."""
    events = [data.draw(made(each)) for each in RECORDED]
    whole = "".join(line.text() for line in lines_of(*events)).encode()
    for kind in (SessionStart, MessageEvent, ToolResult, TurnEndEvent):
        assert whole.count(line_prefix(kind)) == 1, kind
        found = line_at(whole, whole.find(beginning_at_root(kind)))
        assert found is not None
        assert found.type == kind.type


REQUEST = ApprovalRequest(
    "r1", "c1", "push", {}, "w wants to call push", "it asks", "low", None, None
)


@pytest.mark.parametrize(
    ("looked_for", "event"),
    [
        (pending._REQUIRED, ApprovalRequired(REQUEST)),
        (overview._TITLE, SessionUpdate(title="Ferns")),
        (overview._MODEL, SessionUpdate(model="script:y")),
        (overview._SAID, MessageEvent(Message("user", "Look"))),
        (overview._TASK, MessageEvent(Message("user", "Look"))),
        (overview._CALL, ToolStarted("c1", "push", {})),
    ],
)
def test_index_finds_events_by_the_bytes_that_are_written(looked_for: bytes, event: Event) -> None:
    """They depend on the order of keys: a change of the order fails here."""
    (line,) = lines_of(event)
    assert line.text().encode().count(looked_for) == 1


def test_text_of_a_message_is_not_found_as_an_event() -> None:
    words = json.dumps({"depth": 0, "type": "turnEnd", "turn": 1})
    (line,) = lines_of(StatusEvent("info", words))
    assert line_prefix(TurnEndEvent) not in line.text().encode()
    assert beginning_at_root(TurnEndEvent) not in line.text().encode()


EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/tests/*.jsonl"))


@pytest.mark.parametrize("file", EXAMPLES)
def test_recorded_line_is_written_again_byte_for_byte(file: Path) -> None:
    for piece in file.read_bytes().splitlines():
        line = Line.read(piece)
        order = list(line.data)
        envelope = {key: line.data[key] for key in order[: order.index("type") + 1]}
        seal = {key: line.data[key] for key in ("prev", "proof", "hash") if key in line.data}
        again = Line({**envelope, **line.event.payload(), **seal})
        assert again.text().encode() == piece + b"\n"
        assert again.intact
