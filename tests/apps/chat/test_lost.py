"""An interrupted conversation that continues: it shows the last message and the calls that were not made.

Covers forge_cli.apps.chat.lost.
"""

from forge_cli.apps.chat.lost import lines_of_lost
from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import CallResult, Message
from forge_cli.core.phrases import INTERRUPTED_CALL, UNCERTAIN_CALL
from forge_cli.record.resume import Past

CALLS = (
    ToolCall("1", "edit_file", {"path": "a\x1b.py"}),
    ToolCall("2", "shell", {"command": "make"}),
    ToolCall("3", "look", {}),
)
SAID = Message("assistant", "I will.", calls=CALLS)


def results(*texts: str) -> Message:
    found = [
        CallResult(call.id, call.name, text, is_error=True)
        for call, text in zip(CALLS, texts, strict=True)
    ]
    return Message("tool", results=tuple(found))


def test_interrupted_calls_are_named() -> None:
    ended = results(INTERRUPTED_CALL, UNCERTAIN_CALL, "3 files")
    told = list(lines_of_lost(Past((Message("user", "go"), SAID, ended))))
    assert told == [
        "edit_file a\\x1b.py: interrupted before it ran",
        "shell make: interrupted; it may have run",
    ]
    refused = results(
        "edit_file was not called; the user said no", "exit code: 1", "look was not called; x\x1b"
    )
    told = list(lines_of_lost(Past((SAID, refused))))
    assert told == ["edit_file a\\x1b.py: not called; the user said no", "look: not called; x\\x1b"]


def test_answered_interrupted_calls_are_not_mentioned() -> None:
    ended = results(INTERRUPTED_CALL, UNCERTAIN_CALL, "")
    for messages in ((), (Message("user", "go"),), (SAID, ended, Message("assistant", "Well."))):
        assert list(lines_of_lost(Past(messages))) == []
