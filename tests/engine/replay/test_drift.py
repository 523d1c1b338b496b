"""Drift as people read it: what differs, what was recorded, what is now."""

from pathlib import Path

from forge_cli import Approval, Text, Verdict
from forge_cli.core.errors import ExitCode, Mark
from forge_cli.core.events import ToolResult
from forge_cli.core.messages import ToolSpec
from forge_cli.engine.replay.drift import (
    Drift,
    Likeness,
    now_possible,
    other_spec,
    other_text,
    other_tools,
    other_verdict,
)
from forge_cli.events import ToolCall
from forge_cli.record.calls import PastVerdict

from ...rows import each_row

CALL = ToolCall("c", "pay", {"to": "Ana"})
LIKENESS = Likeness("/then", Path("/now"))


def told(drift: Drift | None) -> tuple[str, str | None, str | None] | None:
    return (drift.message, drift.recorded, drift.now) if drift else None


def test_a_drift_has_its_place_and_its_exit_code() -> None:
    drift = Drift("request", "it differs", recorded="a", now="b").at(Mark("record.jsonl", 7), 2)
    assert str(drift) == "record.jsonl:7:1: drift in turn 2: it differs\n  recorded: a\n  now:      b"
    assert drift.exit_code is ExitCode.DRIFT
    assert drift.wire() == {
        "kind": "request",
        "turn": 2,
        "where": "record.jsonl:7:1",
        "message": "drift in turn 2: it differs",
        "recorded": "a",
        "now": "b",
    }


@each_row(
    ("recorded", "now", "same"),
    [
        ("in /then/a", "in /now/a", True),
        ("at 2026-11-15T09:30:00Z", "at 2027-01-01 10:00", True),
        ("key [redacted:A_KEY]!", "key s3cret!", True),
        ("a", "b", False),
        ("key [redacted:A_KEY]!", "key s3cret?", False),
    ],
)
def test_when_two_texts_say_the_same(recorded: str, now: str, same: bool) -> None:
    assert LIKENESS.same(recorded, now) is same


def test_tools_that_are_gone_and_new() -> None:
    assert other_tools(["a", "b"], ["b", "a"]) is None
    message = (
        "other tools are offered: 'read_fil' is gone, 'read_file' is new; 'read_file' is the nearest to 'read_fil'"
    )
    assert told(other_tools(["read_fil"], ["read_file"])) == (message, None, None)


def test_a_text_is_shown_where_it_first_differs() -> None:
    assert told(other_text("request", "it differs", "a\nb", "a\nc")) == ("it differs in line 2", "b", "c")
    assert told(other_text("request", "it differs", "a", "a\nc")) == ("it differs in line 2", "(it ends before)", "c")
    assert told(other_text("request", "it differs", "a\r\nb", "a\nb")) == ("it differs in line 1", "a\r", "a")
    assert told(other_text("request", "it differs", "a\x0cb", "a\u2028b")) == ("it differs", "a\x0cb", "a\u2028b")
    long = told(other_text("request", "it differs", "x" * 300 + "a", "x" * 300 + "b"))
    assert long == ("it differs", f"...{'x' * 33}a", f"...{'x' * 33}b")


def test_a_tool_that_is_described_differently() -> None:
    spec = ToolSpec("pay", "Pay in /then", {"properties": {"to": {"type": "string"}}})
    assert other_spec(spec, ToolSpec("pay", "Pay in /now", spec.input_schema), LIKENESS) is None
    described = other_spec(spec, ToolSpec("pay", "Give", spec.input_schema), LIKENESS)
    assert told(described) == ("the description of 'pay' differs", "Pay in /then", "Give")
    now = ToolSpec("pay", "Pay in /now", {"properties": {"to": {"type": "integer"}}})
    schema = "the input schema of 'pay' differs at properties.to.type", '"string"', '"integer"'
    assert told(other_spec(spec, now, LIKENESS)) == schema


def test_another_verdict_and_another_rule() -> None:
    before, now = PastVerdict("ask", "it asks", "r1"), Verdict(Approval.ASK, "in other words", "r1")
    assert other_verdict(CALL, before, now) is None
    judged = 'pay {"to": "Ana"} is judged differently', "ask: it asks (r1)", "blocked: no"
    assert told(other_verdict(CALL, before, Verdict(Approval.BLOCKED, "no"))) == judged
    ruled = 'pay {"to": "Ana"} is judged by another rule', "ask: it asks (r1)", "ask: it asks (r2)"
    assert told(other_verdict(CALL, before, Verdict(Approval.ASK, "it asks", "r2"))) == ruled


def test_a_call_that_could_not_be_made_and_now_could() -> None:
    refused = ToolResult("c", "pay", "not_found", Text("no such tool"), 0, "no such tool")
    found = told(now_possible(CALL, refused, Verdict(Approval.ASK, "it asks")))
    assert found == ('pay {"to": "Ana"} was refused, and now is not', "not_found: no such tool", "ask: it asks")
