"""The history: messages in order, and a digest of each request."""

from typing import Any

import pytest

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Attachment, CallResult, Message, ToolSpec
from forge_cli.engine.turns.history import History
from forge_cli.sandbox.secrets import Redactor

USER = Message("user", "hi", attachments=(Attachment("a.txt", "text/plain", b"a"),))
ASSISTANT = Message("assistant", "hm", calls=(ToolCall("c1", "add", {"a": 1, "b": 2}),))
RESULT = Message("tool", results=(CallResult("c1", "add", "3"),))
SPECS = [ToolSpec("add", "Add.", {"type": "object"})]


def history(*messages: Message) -> History:
    found = History()
    for message in messages:
        found.append(message)
    return found


def test_digest_equals_that_of_older_records() -> None:
    args = {"b": 2.5, "a": 'größer \u2028 \ud83d\ude00 "x"', "deep": [{"z": None, "y": True}]}
    call = Message("assistant", calls=(ToolCall("c1", "add", args),))
    found = history(
        Message("user", "Zähle 😀"),
        call,
        Message("tool", results=(CallResult("c1", "add", "3 €"),)),
    )
    spec = ToolSpec("add", "Addiere.", {"type": "object", "properties": {"b": {}, "a": {}}})
    recorded = "6f192ec7e4567917a343669c802af5c29687adcadb13db29c26c70780cded9c4"
    assert found.digest("Sei höflich.", (spec,)) == recorded


@pytest.mark.parametrize(
    "said", ["sesame-opened", 'a "quoted" sesame-opened', 'only "quoted"', "plain"]
)
def test_digest_is_independent_of_secrets_and_time(said: str) -> None:
    def digest(redactor: Redactor | None, *messages: Message, asked_each_time: bool = False) -> str:
        found = History((), redactor)
        for message in messages:
            found.append(message)
            if asked_each_time:
                found.digest("s", SPECS)
        return found.digest("s", SPECS)

    discreet, hidden = (
        Redactor({"DOOR_KEY": "sesame-opened"}),
        said.replace("sesame-opened", "[redacted:DOOR_KEY]"),
    )
    expected = digest(None, USER, Message("assistant", hidden), RESULT)
    assert digest(discreet, USER, Message("assistant", said), RESULT) == expected
    assert (
        digest(discreet, USER, Message("assistant", said), RESULT, asked_each_time=True) == expected
    )


@pytest.mark.parametrize("asked", [True, False])
def test_digest_after_a_rewrite_covers_the_new_messages(asked: bool) -> None:
    found = history(USER, ASSISTANT)
    if asked:
        found.digest("s", SPECS)
    found.append(RESULT)
    found.rewrite([USER, *found[1:2]])
    found.append(USER)
    assert found.digest("s", SPECS) == history(USER, ASSISTANT, USER).digest("s", SPECS)
    assert found.call_ids == {"c1"}


@pytest.mark.parametrize(
    ("messages", "system", "specs"),
    [
        ((USER, ASSISTANT), "other", SPECS),
        ((USER, ASSISTANT), "s", []),
        ((USER, ASSISTANT), "s", [ToolSpec("add", "Add!", {"type": "object"})]),
        ((USER,), "s", SPECS),
        ((ASSISTANT, USER), "s", SPECS),
        ((Message("user", "hi"), ASSISTANT), "s", SPECS),
        (
            (
                Message("user", "hi", attachments=(Attachment("a.txt", "text/plain", b"b"),)),
                ASSISTANT,
            ),
            "s",
            SPECS,
        ),
        ((USER, Message("assistant", "hm", calls=(ToolCall("c1", "add", {"a": 1}),))), "s", SPECS),
        ((USER, ASSISTANT, RESULT), "s", SPECS),
    ],
)
def test_digest_differs_for_every_difference(
    messages: Any, system: str, specs: list[ToolSpec]
) -> None:
    assert history(*messages).digest(system, specs) != history(USER, ASSISTANT).digest("s", SPECS)
