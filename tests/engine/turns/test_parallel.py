"""Parallel calls of a worker, from the model's turn to its next request, and in the log."""

import pytest

from forge_cli import InterruptSignal
from forge_cli.core.errors import ExitCode
from forge_cli.events import Message, OnAsk, ToolCall
from forge_cli.hooks import TextDelta, TurnEnd
from forge_cli.record.line import Line
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, Seen, call, calls
from tests.support.listener import Listener

TOOLS = """
import anyio
from forge_cli import ToolContext, tool
from forge_cli.errors import BlockedError

order = []

@tool(read_only=True)
async def look(n: int, context: ToolContext) -> str:
    "Tells what it was asked, later if the number is small."
    for _ in range(20 - n % 20):
        await anyio.lowlevel.checkpoint()
    order.append(n)
    if n == 13: raise RuntimeError("bad luck")
    if n == 66: raise BlockedError("look", "not this one")
    if n == 99:
        context.interrupt.interrupt()
        await anyio.sleep_forever()
    return f"saw {n}, {len(order)} so far"

@tool
def write(n: int) -> str:
    "Writes."
    order.append(f"w{n}")
    return f"wrote after {len(order) - 1}"
"""
WORKER = """
name: w
instructions: You look.
toolsets:
  custom:
    module: ./tools.py
    tools: [look, write]
    approval: {default: preApproved}
"""


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def told(*made: ToolCall) -> Listener:
    """A model that makes these calls in its first turn."""
    return Listener([*made, TurnEnd("tool_use")], [TextDelta("Done."), TurnEnd("end")])


def read_by(model: Listener) -> Message:
    """The results that the model received."""
    return model.requests[1].messages[-1]


def numbered(name: str, *numbers: int) -> list[ToolCall]:
    return [ToolCall(f"{name}{n}", name, {"n": n}) for n in numbers]


def lines(seen: Seen) -> list[Line]:
    return seen.record


def test_turn_with_two_hundred_calls_is_complete(worker: Project) -> None:
    made = numbered("look", *(n for n in range(1000, 1200)))
    model = told(*made)
    seen = worker.run(model=model)
    assert (seen.result.status, seen.result.tool_calls) == ("completed", 200)
    assert [result.call_id for result in read_by(model).results] == [each.id for each in made]
    assert {result.text.partition(",")[0] for result in read_by(model).results} == {
        f"saw {n}" for n in range(1000, 1200)
    }
    assert [line.seq for line in lines(seen)] == list(range(1, len(lines(seen)) + 1))


def test_results_are_read_in_the_order_of_calls_also_from_the_log(
    worker: Project,
) -> None:
    model = told(*numbered("look", 1, 13, 5), *numbered("write", 0), *numbered("look", 2, 19))
    seen = worker.run(model=model)
    read = read_by(model).results
    assert [result.call_id for result in read] == [
        "look1",
        "look13",
        "look5",
        "write0",
        "look2",
        "look19",
    ]
    assert [result.is_error for result in read] == [False, True, False, False, False, False]
    assert read[3].text == "wrote after 3"
    assert [line.data["toolCallId"] for line in lines(seen) if line.type == "toolResult"][:3] != [
        "look1",
        "look13",
        "look5",
    ]
    assert read_by(model) in read_past(lines(seen)).messages


def test_blocking_parallel_call_stops_the_work(worker: Project) -> None:
    turn = calls(call("look", n=1), call("look", n=66), call("look", n=2), call("write", n=0))
    seen = worker.run(turn, "never", on_ask=OnAsk.FAIL)
    assert (seen.result.status, seen.result.exit_code) == ("denied", ExitCode.DENIED)
    assert sorted(seen.statuses) == ["blocked", "interrupted", "success", "success"]


def test_interrupt_of_parallel_calls_leaves_a_resumable_history(worker: Project) -> None:
    signal = InterruptSignal()
    made = numbered("look", *range(1, 10), 99, *range(20, 40))
    model = told(*made)
    seen = worker.run(model=model, interrupt_signal=signal)
    assert seen.result.status == "interrupted"
    past = read_past(lines(seen))
    (results,) = [message.results for message in past.messages if message.role == "tool"]
    assert [result.call_id for result in results] == [each.id for each in made]
    assert results[9].text == '{"type": "interrupted"}'
    assert past.cut_off == ()
    signal.reset()
    again = Listener([TextDelta("Done."), TurnEnd("end")])
    resumed = Resumed(past, lines(seen)[-1])
    assert (
        worker.run(model=again, task="", resume=resumed, interrupt_signal=signal).result.response
        == "Done."
    )
    assert again.requests[0].messages[-1].results == results


def test_log_cut_between_parallel_calls_gives_each_one_result(worker: Project) -> None:
    made = numbered("look", *range(1, 9))
    seen = worker.run(model=told(*made))
    recorded = lines(seen)
    first = next(number for number, line in enumerate(recorded) if line.type == "toolStarted")
    last = max(number for number, line in enumerate(recorded) if line.type == "toolResult")
    for end in range(first, last + 1):
        past = read_past(recorded[:end])
        assert [result.call_id for result in past.messages[-1].results] == [
            each.id for each in made
        ]
        known = {line.data["toolCallId"] for line in recorded[:end] if line.type == "toolResult"}
        results = past.messages[-1].results
        lost = [
            result.call_id for result in results if result.text.startswith('{"type": "interrupted"')
        ]
        assert lost == [each.id for each in made if each.id not in known]
        assert [each.id for each in past.cut_off] == lost
