"""A request beside the recorded one: what matters most is named first."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forge_cli.core.events import TurnStart
from forge_cli.core.messages import ToolSpec
from forge_cli.engine.replay.drift import Likeness, Told, differences
from forge_cli.engine.replay.recording import RecordedTurn
from forge_cli.engine.turns.window import History
from forge_cli.events import Attachment, Message
from forge_cli.hooks import ModelRequest

PAY = ToolSpec("pay", "Pay somebody", {"type": "object"})
TASK = Message("user", "go")
HISTORY = History([TASK])
TOLD = Told("You pay.", (PAY,))
TURN = RecordedTurn(1, TurnStart(1, HISTORY.digest("You pay.", [PAY]), ("pay",)), (TASK,))
REQUEST = ModelRequest("You pay.", HISTORY, [PAY])


def found(
    request: ModelRequest = REQUEST, *, turn: RecordedTurn = TURN, told: Told | None = TOLD, came: Sequence[str] = ()
) -> list[str]:
    return [drift.message for drift in differences(turn, told, request, set(came), Likeness("/then", Path("/now")))]


def test_a_tool_that_was_made_on_the_way_may_be_missing() -> None:
    made = replace(TURN, request=TurnStart(1, HISTORY.digest("You pay.", [PAY]), ("pay", "made")))
    assert found(turn=made)[0] == "other tools are offered: 'made' is gone"
    assert found(turn=made, came=["made"]) == []


def test_what_was_said_since_the_turn_before() -> None:
    later = replace(TURN, number=2, said=(Message("user", "more"),))
    assert found(turn=later)[0] == "the model is told something else"
    silent = ModelRequest("You pay.", History([TASK, Message("assistant", "x")]), [PAY])
    assert found(silent)[0] == "the model is not told what it was told"
    file = Attachment("a.txt", "text/plain", b"x")
    assert found(ModelRequest("You pay.", History([Message("user", "go", attachments=(file,))]), [PAY]))[0] == (
        "other files go along with the task"
    )


def test_the_history_cannot_be_compared_where_a_secret_was_redacted() -> None:
    other = ModelRequest("You pay.", History([Message("user", "before"), Message("assistant", "x"), TASK]), [PAY])
    assert found(other) == ["the history differs, and the record does not say in what"]
    assert found(other, told=None) == ["the request differs, and the record does not say in what"]
    secret = Told("You pay.", (ToolSpec("pay", "Pay [redacted:A_KEY]", PAY.input_schema),))
    assert "the history differs, and the record does not say in what" not in found(other, told=secret)
