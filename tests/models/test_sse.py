"""Server-sent events are the same for every chunking and line ending.

Covers forge_cli.models.openai.answer.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.models.http import SseReader
from forge_cli.models.openai.answer import ChatAnswer

LINES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff"))
NOISE = st.sampled_from([": ping", "event: x", "id: 1", "", "retry"])


@given(st.data(), st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=5))
def test_events_cut_at_any_byte_are_read(data: st.DataObject, events: list[list[str]]) -> None:
    said = [
        part
        for lines in events
        for part in (data.draw(NOISE), *(f"data: {line}" for line in lines), "")
    ]
    endings = data.draw(st.sampled_from([("\n", "\r\n"), ("\r",)]))
    stream = "".join(line + data.draw(st.sampled_from(endings)) for line in said).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = SseReader()
    heard = [
        event
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for event in reader.feed(stream[start:end])
    ]
    assert heard == ["\n".join(lines) for lines in events]
    assert reader.close() == []


@pytest.mark.parametrize(
    ("lines", "events"),
    [
        (b"data:x\n\n", ["x"]),
        (b"data:  x\n\n", [" x"]),
        (b"data\n\n", [""]),
        (b"data : x\n\n", []),
        (b"database: x\n\n", []),
        (b"error: {}\n\n", ['{"error":{}}']),
        (b"data: a\nevent: e\ndata: b\n\n", ["a\nb"]),
        (b"data: a\n\xef\xbb\xbf\ndata: b\n\n", ["a", "b"]),
        (b"\n\n: nothing\n\n", []),
    ],
)
def test_every_form_of_line_is_read(lines: bytes, events: list[str]) -> None:
    assert SseReader().feed(lines) == events
    assert SseReader().feed(lines.replace(b"\n", b"\r\n")) == events


KEYS = [
    "choices",
    "delta",
    "message",
    "content",
    "tool_calls",
    "function",
    "arguments",
    "name",
    "id",
    "index",
    "usage",
]
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False)
    | st.text(max_size=3)
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    VALUES,
    lambda item: (
        st.lists(item, max_size=3) | st.dictionaries(st.sampled_from(KEYS), item, max_size=4)
    ),
    max_leaves=6,
)
CALL = st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=4)
CHUNK = st.builds(
    lambda delta, more: {**more, "choices": [{"delta": delta}]},
    st.dictionaries(st.sampled_from(KEYS), ANYTHING)
    | st.builds(lambda calls: {"tool_calls": calls}, st.lists(CALL)),
    st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=3),
)


@given(st.lists(CHUNK | st.dictionaries(st.sampled_from(KEYS), ANYTHING), max_size=4))
def test_arbitrary_chunks_do_not_crash_the_reader(chunks: list[dict[str, Any]]) -> None:
    answer = ChatAnswer()
    for chunk in chunks:
        answer.add(chunk).encode()
    calls = answer.calls(taken=())
    assert len({call.id for call in calls}) == len(calls) == len(answer.slots)
