"""The model's window: usage is reported, old results are removed first, then summarised; task and plan stay.

Covers forge_cli.engine.turns.room.
"""

import itertools
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from forge_cli import InterruptSignal
from forge_cli.core.errors import ExitCode, ModelError
from forge_cli.core.events import (
    ContextUsage,
    MessageEvent,
    StatusEvent,
    Streaming,
    TurnEndEvent,
    TurnStart,
)
from forge_cli.core.messages import Delta
from forge_cli.core.phrases import ELIDED_RESULT, RESUME_INTERRUPTED, SUMMARY_INTRODUCTION
from forge_cli.engine.turns.output import OutputSchema
from forge_cli.engine.turns.room import ROOMY, WHOLE_TURNS
from forge_cli.events import Attachment, Message, ToolCall, Usage
from forge_cli.files.worker import Limits
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.record.line import Line
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, Seen, call, calls

TOOLS = """
def read(n: int, size: int = 3000) -> str:
    return f"<{n}>" + "x" * size

def note(text: str) -> str: return "noted"
"""
WORKER = """
name: reader
instructions: You read.
toolsets:
  custom: {module: ./tools.py, tools: [read, note], approval: {default: preApproved}}
  plan:
"""
TASK = "Read all of them, and answer in Latin."
STEPS = [{"step": "read", "status": "in_progress"}, {"step": "answer", "status": "pending"}]
Turn = Sequence[ToolCall] | str


class Cut(str):
    """A turn of text that ends at the model's length limit."""


class Reader:
    """A model with a window: three bytes are a token, and it refuses more than ``holds`` tokens."""

    name = "reader:test"

    def __init__(
        self,
        *turns: Turn,
        window: int | None = 10_000,
        holds: int | None = 10_000,
        counts: bool = True,
    ) -> None:
        self.context_window = window
        self.turns = list(turns)
        self.counts = counts
        self.holds = holds
        self.requests: list[ModelRequest] = []
        self.summaries: list[str | Exception] = []

    @property
    def asked(self) -> list[ModelRequest]:
        """The requests of the conversation itself."""
        return [request for request in self.requests if request.tools]

    @property
    def summarised(self) -> list[ModelRequest]:
        return [request for request in self.requests if not request.tools]

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        check(request.messages)
        self.requests.append(replace(request, messages=list(request.messages)))
        told = sum(len(text) for text in texts(request)) // 3
        if self.holds and told > self.holds:
            raise ModelError("the prompt is too long", too_long=True)
        turn = self._summary() if not request.tools else self.turns.pop(0)
        made = [] if isinstance(turn, str) else turn
        said = turn if isinstance(turn, str) else ""
        yield TextDelta(said)
        for each in made:
            yield each
        output = sum(map(len, [said, *(json.dumps(each.args) for each in made)])) // 3
        stop = "tool_use" if made else "max_tokens" if isinstance(turn, Cut) else "end"
        yield TurnEnd(
            stop, Usage(told // 4, output, told // 4, told // 2) if self.counts else Usage()
        )

    def _summary(self) -> str:
        said = self.summaries.pop(0) if self.summaries else f"SUMMARY {len(self.summarised)}"
        if isinstance(said, Exception):
            raise said
        return said

    async def aclose(self) -> None:
        """Nothing is open."""


def texts(request: ModelRequest) -> Iterator[str]:
    yield request.system
    yield from (json.dumps(tool.wire()) for tool in request.tools)
    for message in request.messages:
        yield message.text
        yield from (json.dumps(call.args) for call in message.calls)
        yield from (result.text for result in message.results)


def check(messages: Sequence[Message]) -> None:
    """Check the requirements of every provider on a history."""
    assert messages[0].role == "user"
    waiting: list[str] = []
    for message in messages:
        if message.role == "tool":
            assert [result.call_id for result in message.results] == waiting
            waiting = []
        else:
            assert waiting == []
            waiting = [call.id for call in message.calls]
    assert waiting == []
    roles = [message.role for message in messages]
    assert ("assistant", "assistant") not in itertools.pairwise(roles)
    assert ("user", "user") not in itertools.pairwise(roles)
    assert roles[-1] != "assistant"


def reads(count: int, first: int = 1, **args: Any) -> list[Turn]:
    return [[ToolCall(f"c{n}", "read", {"n": n, **args})] for n in range(first, first + count)]


def plans(call_id: str, steps: list[dict[str, str]] = STEPS) -> list[ToolCall]:
    return [ToolCall(call_id, "update_plan", {"plan": steps})]


def notes(count: int, first: int = 1) -> list[Turn]:
    """Turns whose calls are long and whose results are short: there is nothing to elide."""
    return [
        [ToolCall(f"n{n}", "note", {"text": f"({n})" + "y" * 3000})]
        for n in range(first, first + count)
    ]


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def recorded(seen: Seen) -> list[Line]:
    return seen.record


def resumed(seen: Seen) -> Resumed:
    lines = recorded(seen)
    return Resumed(read_past(lines), lines[-1])


def elided(messages: Sequence[Message]) -> list[str]:
    return [
        result.call_id
        for message in messages
        for result in message.results
        if result.text == ELIDED_RESULT
    ]


# --- usage


def test_usage_is_reported_after_every_turn(worker: Project) -> None:
    model = Reader(*reads(2), "Done.")
    seen = worker.run(model=model, task=TASK)
    told = [event for event in seen.events if isinstance(event, ContextUsage | TurnEndEvent)]
    assert [event.type for event in told] == ["turnEnd", "contextUsage"] * 3
    for end, usage in zip(told[::2], told[1::2], strict=True):
        assert isinstance(end, TurnEndEvent)
        one = end.usage
        used = one.input_tokens + one.output_tokens + one.cache_read_tokens + one.cache_write_tokens
        assert usage == ContextUsage(used, 10_000)


def test_model_without_token_counts_reports_no_usage(worker: Project) -> None:
    seen = worker.run(model=Reader("Done.", counts=False))
    assert seen.of(ContextUsage) == []


def test_unknown_window_is_never_full(worker: Project) -> None:
    model = Reader(*reads(20), "Done.", window=None, holds=None)
    seen = worker.run(model=model)
    assert {event.window for event in seen.of(ContextUsage)} == {None}
    assert "window" in seen.of(ContextUsage)[0].payload()
    assert elided(model.asked[-1].messages) == []
    assert model.summarised == []


def test_window_in_the_config_takes_precedence(worker: Project) -> None:
    worker.home.mkdir()
    (worker.home / "config.yaml").write_text("models: {'reader:test': {context: 7000}}")
    model = Reader(*reads(8), "Done.", window=1_000_000, holds=None)
    seen = worker.run(model=model)
    assert {event.window for event in seen.of(ContextUsage)} == {7000}
    assert elided(model.asked[-1].messages)


# --- old results


def test_old_results_are_removed_first_and_the_last_turns_stay(worker: Project) -> None:
    model = Reader(*reads(9), "Done.")
    seen = worker.run(model=model, task=TASK)
    assert seen.result.status == "completed"
    assert model.summarised == []
    (made,) = [event for event in seen.of(ContextUsage) if event.elided]
    assert made.elided == tuple(f"c{n}" for n in range(1, len(made.elided) + 1))
    assert made.used <= ROOMY * 10_000
    before, after = next(
        (one, two)
        for one, two in zip(model.asked, model.asked[1:], strict=False)
        if not elided(one.messages) and elided(two.messages)
    )
    assert tuple(elided(after.messages)) == made.elided
    whole = [message for message in after.messages if message.role == "tool"][-WHOLE_TURNS:]
    assert elided(whole) == []
    assert [call.id for message in after.messages for call in message.calls] == [
        *(call.id for message in before.messages for call in message.calls),
        f"c{len(before.messages) // 2 + 1}",
    ]
    said = [event.message for event in seen.of(StatusEvent)]
    assert said == [
        f"the model's window is {said[0].split()[4]} full: old results are removed, of read ({len(made.elided)})"
    ]


def test_compaction_is_rare_and_the_prefix_is_stable_in_between(worker: Project) -> None:
    model = Reader(*reads(40, size=1200), "Done.")
    seen = worker.run(model=model, limits=Limits(max_turns=100))
    assert seen.result.status == "completed"
    changes = sum(
        two.messages[: len(one.messages)] != one.messages
        for one, two in zip(model.asked, model.asked[1:], strict=False)
    )
    made = [event for event in seen.of(ContextUsage) if event.elided or event.summarised]
    assert 1 <= changes == len(made) <= 8
    assert (
        len(
            {
                (request.system, json.dumps([tool.wire() for tool in request.tools]))
                for request in model.asked
            }
        )
        == 1
    )
    assert all(event.used <= 10_000 for event in seen.of(ContextUsage))


def test_short_and_lasting_results_are_kept(worker: Project) -> None:
    lasting = "\nfrom forge_cli import tool\n\n@tool(lasting=True)\ndef keep() -> str: return 'k' * 3000\n"
    worker.write("tools.py", TOOLS + lasting)
    worker.write("worker.yaml", WORKER.replace("note]", "note, keep]"))
    short = [ToolCall("s", "read", {"n": 0, "size": 10})]
    model = Reader([ToolCall("k", "keep", {})], short, *reads(8), "Done.")
    worker.run(model=model, task=TASK)
    gone = elided(model.asked[-1].messages)
    assert gone
    assert not {"k", "s"} & set(gone)


def test_model_without_token_counts_is_compacted_by_estimate(worker: Project) -> None:
    model = Reader(*reads(12), "Done.", counts=False)
    seen = worker.run(model=model)
    assert seen.result.status == "completed"
    assert elided(model.asked[-1].messages)


def test_large_results_go_earlier_without_a_summary_except_in_the_last_turn(
    worker: Project,
) -> None:
    model = Reader(*reads(3, size=9000), "Done.")
    model.summaries = [ModelError("it is down")]
    seen = worker.run(model=model)
    assert seen.result.status == "completed"
    assert elided(model.asked[-1].messages) == ["c1", "c2"]


def test_unread_results_are_removed_only_as_the_last_resort(
    worker: Project,
) -> None:
    turn = [ToolCall(f"c{n}", "read", {"n": n, "size": 9000}) for n in range(1, 6)]
    model = Reader(turn, "Done.")
    seen = worker.run(model=model)
    assert seen.result.status == "completed"
    assert elided(model.asked[-1].messages) == ["c1", "c2", "c3"]


# --- a summary


def test_summary_replaces_older_messages(worker: Project) -> None:
    model = Reader(plans("p1"), *notes(8), "Done.")
    seen = worker.run(model=model, task=TASK)
    assert (seen.result.status, seen.result.response) == ("completed", "Done.")
    (request,) = model.summarised
    (asked,) = request.messages
    assert TASK in asked.text
    assert "note: " in asked.text
    assert asked.text.endswith("Write the summary now.")
    (made,) = [event for event in seen.of(ContextUsage) if event.summarised]
    first, *rest = model.asked[-1].messages
    assert rest[0].role == "assistant"
    assert first.text.startswith(SUMMARY_INTRODUCTION)
    assert f"word for word\n\n{TASK}\n\n" in first.text
    assert "\n\nSUMMARY 1\n\n" in first.text
    plan = json.dumps({"plan": STEPS})
    assert f"Your last call of update_plan, word for word\n\n{plan}\nPlan updated" in first.text
    (recorded,) = [event for event in seen.of(MessageEvent) if event.summary_of is not None]
    message = recorded.message
    assert (message.role, message.text, recorded.summary_of) == (
        "user",
        first.text,
        made.summarised,
    )
    assert message.summary is not None
    assert message.summary.text == "SUMMARY 1"
    told = [event.message for event in seen.of(StatusEvent)]
    assert told == [
        f"the model's window is {told[0].split()[4]} full: the first {made.summarised} of "
        f"{made.summarised + len(recorded_after(seen, made))} messages are replaced by a summary"
    ]


def recorded_after(seen: Seen, made: ContextUsage) -> list[Message]:
    """The messages that were kept when the summary was made."""
    lines = recorded(seen)
    index = next(
        number
        for number, line in enumerate(lines)
        if line.data.get("summarised") == made.summarised
    )
    return list(read_past(lines[: index + 1]).messages[1:])


def test_summary_is_a_turn_without_visible_events(worker: Project) -> None:
    model = Reader(*notes(8), "Done.")
    seen = worker.run(model=model, task=TASK)
    assert seen.result.turns == len(model.requests) == len(model.asked) + 1
    assert [event.turn for event in seen.of(TurnStart)] == list(range(1, len(model.requests) + 1))
    (start,) = [event for event in seen.of(TurnStart) if event.tools == ()]
    around = [event.type for event in seen.events if not isinstance(event, Streaming)]
    place = around.index(
        "contextUsage",
        [event for event in seen.events if not isinstance(event, Streaming)].index(start),
    )
    assert around[place - 4 : place + 2] == [
        "status",
        "turnStart",
        "message",
        "turnEnd",
        "contextUsage",
        "turnStart",
    ]
    assert seen.result.usage == sum((event.usage for event in seen.of(TurnEndEvent)), Usage())
    assert len(seen.of(TurnEndEvent)) == len(model.requests)
    assert "".join(event.delta for event in seen.of(Streaming)) == "Done."


def test_summary_counts_in_the_limits(worker: Project) -> None:
    model = Reader(*notes(8), "Done.")
    whole = worker.run(model=model, task=TASK)
    number = next(event.turn for event in whole.of(TurnStart) if event.tools == ())
    model = Reader(*notes(8), "Done.")
    seen = worker.run(model=model, task=TASK, limits=Limits(max_turns=number - 1))
    assert (seen.result.status, seen.result.exit_code) == ("limit", ExitCode.LIMIT)
    assert model.summarised == []
    assert read_past(recorded(seen)).messages[0].text == TASK


def test_next_summary_keeps_the_task_and_the_plan(worker: Project) -> None:
    later = [{"step": "read", "status": "completed"}, {"step": "answer", "status": "in_progress"}]
    model = Reader(plans("p1"), *notes(20), *plans_and_more(later), "Done.")
    seen = worker.run(model=model, task=TASK, limits=Limits(max_turns=100))
    assert seen.result.status == "completed"
    assert len(model.summarised) > 2
    assert "BEFORE THAT" in model.summarised[1].messages[0].text
    for request in model.asked:
        told = "".join(texts(request))
        assert TASK in told
        assert (
            json.dumps({"plan": STEPS}) in told
            or json.dumps({"plan": later}) in told
            or len(request.messages) < 3
        )
    last = model.asked[-1].messages[0].text
    assert json.dumps({"plan": later}) in last
    assert json.dumps({"plan": STEPS}) not in last
    assert last.count(TASK) == 1


def plans_and_more(steps: list[dict[str, str]]) -> list[Turn]:
    failing = [*steps, {"step": "both at once", "status": "in_progress"}]
    return [plans("p2", steps), plans("p3", failing), *notes(10, first=30)]


def test_files_of_the_task_are_kept(worker: Project) -> None:
    image = Attachment("a.png", "image/png", b"png")
    messages = [Message("user", "Look", attachments=(image,)), *spoken(20)]
    model = Reader("Done.")
    seen = worker.run(
        model=model, resume=Resumed(replace(read_past([]), messages=tuple(messages))), task="And?"
    )
    assert seen.result.status == "completed"
    first = model.asked[-1].messages[0]
    assert first.summary
    assert first.summary.said[0] == "Look"
    assert first.attachments == (image,)


def spoken(count: int) -> list[Message]:
    """A conversation without calls."""
    pairs = [
        (Message("assistant", f"({n})" + "z" * 2000), Message("user", f"more {n}"))
        for n in range(count)
    ]
    return [message for pair in pairs for message in pair][:-1]


@pytest.mark.parametrize(
    ("turns", "schema"),
    [
        ([Cut("The first"), *notes(8), "Done."], None),
        (["no JSON", *notes(8), "{}"], OutputSchema({"type": "object"})),
    ],
    ids=["a cut-off answer", "an answer that does not fit"],
)
def test_message_by_forge_is_not_kept_as_a_user_message(
    worker: Project, turns: list[Turn], schema: OutputSchema | None
) -> None:
    model = Reader(*turns)
    seen = worker.run(model=model, task=TASK, output_schema=schema)
    assert seen.result.status == "completed"
    assert [request.messages[-1].role for request in model.asked][:2] == ["user", "user"]
    assert kept_words(model) == (TASK,)


def test_message_by_forge_after_an_interrupt_is_not_kept_as_a_user_message(
    worker: Project,
) -> None:
    signal = InterruptSignal()

    class Interrupted(Reader):
        async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
            yield TextDelta("The first")
            signal.interrupt()

    cut = worker.run(model=Interrupted(), task=TASK, interrupt_signal=signal)
    assert cut.result.status == "interrupted"
    model = Reader(*notes(8), "Done.")
    assert worker.run(model=model, task="", resume=resumed(cut)).result.status == "completed"
    assert model.asked[0].messages[-1].text == RESUME_INTERRUPTED
    assert kept_words(model) == (TASK,)


def kept_words(model: Reader) -> tuple[str, ...]:
    """The user's text in the summary at the beginning of the last request."""
    summary = model.asked[-1].messages[0].summary
    assert summary is not None
    return summary.said


# --- a summary that fails


@pytest.mark.parametrize(
    "failure", ["", "  \n", ModelError("it is down"), ModelError("too long", too_long=True)]
)
def test_failed_summary_loses_nothing(worker: Project, failure: str | Exception) -> None:
    model = Reader(*notes(8), "Done.", holds=None)
    model.summaries = [failure]
    seen = worker.run(model=model, task=TASK)
    assert (seen.result.status, seen.result.response) == ("completed", "Done.")
    assert len(model.summarised) == 1
    assert model.asked[-1].messages[: len(model.asked[-2].messages)] == model.asked[-2].messages
    assert model.asked[-1].messages[0] == Message("user", TASK)
    assert [event for event in seen.of(ContextUsage) if event.summarised] == []
    warnings = [event.message for event in seen.of(StatusEvent) if event.level == "warning"]
    assert warnings == [
        f"no summary was made, and nothing is lost: {getattr(failure, 'message', 'the model gave none')}"
    ]
    assert list(read_past(recorded(seen)).messages[:-1]) == model.asked[-1].messages


def test_failed_summary_still_removes_old_results(worker: Project) -> None:
    mixed = [
        [*turn, ToolCall(f"r{n}", "read", {"n": n, "size": 600})] for n, turn in enumerate(notes(8))
    ]  # type: ignore[misc]
    model = Reader(*mixed, "Done.", holds=None)
    model.summaries = [ModelError("it is down")]
    seen = worker.run(model=model, task=TASK)
    assert seen.result.status == "completed"
    assert elided(model.asked[-1].messages)[:2] == ["r0", "r1"]


def test_interrupt_during_a_summary_ends_it(worker: Project) -> None:
    signal = InterruptSignal()

    class Interrupting(Reader):
        def _summary(self) -> str:
            signal.interrupt()
            return "half a"

    model = Interrupting(*notes(8), "Done.")
    seen = worker.run(model=model, task=TASK, interrupt_signal=signal)
    assert seen.result.status == "interrupted"
    past = read_past(recorded(seen))
    assert past.messages[0].text == TASK
    assert past.unfinished
    check(past.messages)
    signal.reset()
    again = Reader("Done.")
    done = worker.run(model=again, task="", resume=resumed(seen), interrupt_signal=signal)
    assert done.result.status == "completed"
    assert len(again.summarised) == 1


# --- a request that is refused as too long


@pytest.mark.parametrize("window", [None, 1_000_000])
@pytest.mark.parametrize("turns", [reads(14), notes(14)])
def test_overlong_request_is_shortened_and_sent_again(
    worker: Project, window: int | None, turns: list[Turn]
) -> None:
    model = Reader(*turns, "Done.", window=window, holds=10_000)
    seen = worker.run(model=model, task=TASK)
    assert (seen.result.status, seen.result.response) == ("completed", "Done.")
    assert "the prompt is too long" in [
        event.message for event in seen.of(StatusEvent) if event.level == "warning"
    ]
    assert [event for event in seen.of(ContextUsage) if event.elided or event.summarised]
    assert list(read_past(recorded(seen)).messages[:-1]) == model.asked[-1].messages


def test_request_that_cannot_be_shortened_fails_with_the_provider_message(worker: Project) -> None:
    model = Reader("never", window=100, holds=100)
    seen = worker.run(model=model, task="long " * 200)
    assert (seen.result.status, seen.result.exit_code) == ("failed", ExitCode.PROVIDER)
    assert seen.result.error == "the prompt is too long"
    assert len(model.requests) == 1


# --- a session that goes on


@pytest.mark.few(1)
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize(
    "turns", [reads(30), notes(20), [*reads(6), *notes(8), *reads(12, first=7)]]
)
def test_resumed_session_sends_the_same_request(
    worker: Project, turns: list[Turn], counts: bool
) -> None:
    limits = Limits(max_turns=200)
    model = Reader(*turns, "Done.", counts=counts)
    whole = worker.run(model=model, task=TASK, limits=limits)
    assert whole.result.status == "completed"
    lines = recorded(whole)
    starts = [index for index, line in enumerate(lines) if line.type == "turnStart"]
    for place in starts[1 :: len(starts) // 5]:
        answered = sum(
            line.type == "turnEnd" and line.data["stop"] == "tool_use" for line in lines[:place]
        )
        again = Reader(*turns[answered:], "Done.", counts=counts)
        summaries = sum(
            "summaryOf" in line.data["message"] for line in lines[:place] if line.type == "message"
        )
        again.summaries = [f"SUMMARY {summaries + number}" for number in range(1, 9)]
        before = lines[:place]
        seen = worker.run(
            model=again, task="", resume=Resumed(read_past(before), before[-1]), limits=limits
        )
        digests = [
            line.data["requestDigest"] for line in recorded(seen) if line.type == "turnStart"
        ]
        assert digests == [lines[index].data["requestDigest"] for index in starts if index >= place]


@pytest.mark.few(1)
@pytest.mark.parametrize("after", [8, 9])
def test_compacted_session_is_replayed_despite_other_settings(worker: Project, after: int) -> None:
    """With one turn more the script calls a tool when it is asked for a summary, so there is none."""
    note = call("note", text="y" * 3000)
    turns: list[Any] = [
        calls(call("update_plan", plan=STEPS)),
        *[calls(note)] * after,
        "SUMMARY",
        *[calls(note)] * 2,
        "Done.",
    ]
    spoken = [{"text": turn} if isinstance(turn, str) else turn for turn in turns]
    worker.write("script.yaml", json.dumps({"turns": spoken}))
    worker.home.mkdir()
    (worker.home / "config.yaml").write_text("models: {'script:script.yaml': {context: 10000}}")
    done = worker.forge(
        "run", "worker.yaml", TASK, "-m", "script:script.yaml", "--record", "record.jsonl"
    )
    assert done.stdout == ("Done.\n" if after == 8 else "SUMMARY\n")
    assert ("there is no summary" in done.stderr) == (after == 9)
    (worker.home / "config.yaml").unlink()
    again = worker.forge("replay", "record.jsonl")
    assert (again.returncode, again.stderr) == (0, "")


def test_history_is_valid_wherever_it_is_cut(worker: Project) -> None:
    model = Reader(plans("p1"), *reads(5), *notes(8), *reads(9, first=6), "Done.")
    lines = recorded(worker.run(model=model, task=TASK, limits=Limits(max_turns=100)))
    assert any("elided" in line.data for line in lines)
    assert any("summarised" in line.data for line in lines)
    for end in range(3, len(lines)):
        past = read_past(lines[:end])
        check(
            [*past.messages, Message("user", "and?")]
            if past.messages[-1].role == "assistant"
            else past.messages
        )
        assert TASK in past.messages[0].text
        assert past.counted is None or past.counted[1] <= len(past.messages)
