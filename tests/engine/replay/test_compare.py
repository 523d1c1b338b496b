"""A request compared with the recorded one: the most important difference comes first."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forge_cli.core.events import TurnStart
from forge_cli.core.messages import ToolSpec
from forge_cli.engine.replay.drift import Likeness, RecordedPrompt, differences
from forge_cli.engine.replay.recording import RecordedTurn
from forge_cli.engine.turns.history import History
from forge_cli.events import Attachment, Message
from forge_cli.hooks import ModelRequest

PAY = ToolSpec("pay", "Pay somebody", {"type": "object"})
TASK = Message("user", "go")
HISTORY = History([TASK])
TOLD = RecordedPrompt("You pay.", (PAY,))
TURN = RecordedTurn(1, TurnStart(1, HISTORY.digest("You pay.", [PAY]), ("pay",)), (TASK,))
REQUEST = ModelRequest("You pay.", HISTORY, [PAY])


def found(
    request: ModelRequest = REQUEST,
    *,
    turn: RecordedTurn = TURN,
    told: RecordedPrompt | None = TOLD,
    came: Sequence[str] = (),
) -> list[str]:
    return [
        drift.message
        for drift in differences(turn, told, request, set(came), Likeness("/then", Path("/now")))
    ]


def test_tool_created_during_the_session_may_be_missing() -> None:
    made = replace(TURN, request=TurnStart(1, HISTORY.digest("You pay.", [PAY]), ("pay", "made")))
    assert found(turn=made)[0] == "other tools are offered: 'made' is gone"
    assert found(turn=made, came=["made"]) == []


def test_messages_since_the_previous_turn_are_compared() -> None:
    later = replace(TURN, number=2, said=(Message("user", "more"),))
    assert found(turn=later)[0] == "a message to the model differs"
    silent = ModelRequest("You pay.", History([TASK, Message("assistant", "x")]), [PAY])
    assert found(silent)[0] == "a message to the model is missing"
    file = Attachment("a.txt", "text/plain", b"x")
    assert found(
        ModelRequest("You pay.", History([Message("user", "go", attachments=(file,))]), [PAY])
    )[0] == ("other files are attached to the task")


def test_history_with_a_redacted_secret_is_not_compared() -> None:
    other = ModelRequest(
        "You pay.", History([Message("user", "before"), Message("assistant", "x"), TASK]), [PAY]
    )
    assert found(other) == ["the history differs, but the recording has only its hash"]
    assert found(other, told=None) == ["the request differs, but the recording has only its hash"]
    secret = RecordedPrompt(
        "You pay.", (ToolSpec("pay", "Pay [redacted:A_KEY]", PAY.input_schema),)
    )
    assert "the history differs, but the recording has only its hash" not in found(
        other, told=secret
    )


SCHEMA = {
    "type": "object",
    "properties": {
        "description": {"type": "string", "description": "What it is for", "title": "Description"},
        "lines": {"$ref": "#/$defs/Lines", "description": "Which lines", "default": {"title": "x"}},
        "mode": {
            "anyOf": [{"enum": ["a", "b"], "description": "one"}, {"type": "null"}],
            "examples": ["a"],
        },
    },
    "required": ["description"],
    "$defs": {
        "Lines": {
            "type": "array",
            "title": "Lines",
            "items": {"type": "integer", "description": "A line"},
        }
    },
}


def changed(*path: str | int, to: object) -> dict[str, Any]:
    """The schema with another value at a place; None takes it away."""
    schema = json.loads(json.dumps(SCHEMA))
    place = schema
    for key in path[:-1]:
        place = place[key]
    if to is None:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return dict(schema)


WORDS = {
    "of a field": changed("properties", "description", "description", to="Its purpose"),
    "none any more": changed("properties", "description", "description", to=None),
    "a title": changed("properties", "description", "title", to=None),
    "beside a reference": changed("properties", "lines", "description", to="The lines"),
    "in a definition": changed("$defs", "Lines", "items", "description", to="One line"),
    "in a choice": changed("properties", "mode", "anyOf", 0, "description", to="two"),
    "examples": changed("properties", "mode", "examples", to=["b"]),
    "of all": changed("description", to="Everything"),
}
MEANING = {
    "a field that is gone": changed("properties", "description", to=None),
    "a new field": changed("properties", "title", to={"type": "string"}),
    "another type": changed("properties", "description", "type", to="integer"),
    "another choice": changed("properties", "mode", "anyOf", 0, "enum", to=["a"]),
    "another default": changed("properties", "lines", "default", to={"title": "y"}),
    "another definition": changed("$defs", "Lines", "items", "type", to="string"),
    "nothing required": changed("required", to=[]),
}


def compared(
    now: ToolSpec, schema: dict[str, Any], description: str = "Make something"
) -> list[str]:
    recorded = ToolSpec("make", description, schema)
    turn = RecordedTurn(1, TurnStart(1, HISTORY.digest("You pay.", [recorded]), ("make",)), (TASK,))
    return found(
        ModelRequest("You pay.", HISTORY, [now]),
        turn=turn,
        told=RecordedPrompt("You pay.", (recorded,)),
    )


def test_only_descriptions_of_built_in_tools_may_change() -> None:
    """A record of another version is a test of the worker, not of how forge describes its tools."""
    own = ToolSpec("make", "Make something", SCHEMA, "all")
    foreign = ToolSpec("make", "Make something", SCHEMA)
    worker = ToolSpec("make", "Make something", SCHEMA, "schema")
    assert compared(own, SCHEMA, "Makes things") == []
    for spec in (foreign, worker):
        assert compared(spec, SCHEMA, "Makes things") == ["the description of 'make' differs"]
    for name, schema in WORDS.items():
        assert (name, compared(own, schema), compared(worker, schema)) == (name, [], [])
        assert (name, len(compared(foreign, schema))) == (name, 1)
    for name, schema in MEANING.items():
        for spec in (own, worker, foreign):
            assert (name, [told.partition(" at ")[0] for told in compared(spec, schema)]) == (
                name,
                ["the input schema of 'make' differs"],
            )
