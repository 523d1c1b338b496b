"""Ids of calls, as requests have them."""

from forge_cli.core.calls import ToolCall, is_legal_id
from forge_cli.core.messages import CallResult, Message
from forge_cli.models.call_ids import RequestIds

from ..rows import each_row


def turn(*ids: str) -> list[Message]:
    calls = tuple(ToolCall(each, "add", {"n": number}) for number, each in enumerate(ids))
    results = tuple(CallResult(each, "add", str(number)) for number, each in enumerate(ids))
    return [Message("assistant", calls=calls), Message("tool", results=results)]


def test_good_ids_stay_as_they_are() -> None:
    ids = RequestIds()
    for message in [Message("user", "hi"), *turn("toolu_1", "call-2"), *turn("a")]:
        assert ids.mend(message) is message


@each_row(
    "history",
    [
        [*turn("same", "same")],
        [*turn("same"), *turn("same"), *turn("same")],
        [*turn("", "")],
        [*turn("a b", "ä", "x" * 65, "\ud800", "call.1")],
    ],
)
def test_bad_ids_become_good_ones_and_results_follow(history: list[Message]) -> None:
    ids, again = RequestIds(), RequestIds()
    mended = [ids.mend(message) for message in history]
    calls = [call for message in mended for call in message.calls]
    results = [result for message in mended for result in message.results]
    assert all(is_legal_id(call.id) for call in calls)
    assert len({call.id for call in calls}) == len(calls)
    assert [(result.call_id, result.text) for result in results] == [(call.id, str(call.args["n"])) for call in calls]
    assert [again.mend(message) for message in history] == mended
