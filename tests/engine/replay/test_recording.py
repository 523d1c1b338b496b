"""A session read to be repeated: its parts, the turns of each worker, and the result of every call."""

from pathlib import Path

from forge_cli.core.events import Event, MessageEvent, SessionStart, TurnEndEvent, TurnStart
from forge_cli.engine.replay.recording import Recording, read_recording
from forge_cli.events import Message, Usage
from forge_cli.record.log import Log
from tests.support.lines import lines_of

START = SessionStart(
    "script:x", "/w", "interactive", worker_file="/w/worker.yaml", output_schema={"type": "object"}
)
TASK = MessageEvent(Message("user", "go"))


def read(*events: Event) -> Recording:
    return read_recording(Log(Path("record.jsonl"), tuple(lines_of(*events))))


def test_provider_data_with_a_redacted_secret_is_not_sent_back() -> None:
    said = MessageEvent(Message("assistant", "x", native={"key": "[redacted:A_KEY]"}))
    track = (
        read(START, TASK, TurnStart(1, "d", ()), said, TurnEndEvent(1, "end", Usage()))
        .parts[0]
        .track()
    )
    assert (track.turns[1].end and track.turns[1].end.native) is None
