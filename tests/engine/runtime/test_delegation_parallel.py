"""Child workers of one turn run at the same time: questions, limits, and their common end."""

from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalRequest, ForgeError, InterruptSignal
from forge_cli.core.errors import ExitCode
from forge_cli.core.events import ApprovalRequired
from forge_cli.events import OnAsk, ToolCall, Usage
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.testing import Seen
from tests.support.tree import Tree, allowed, custom, results, texts, unanswered

DEADLINE = 20


class Meeting:
    """A model of a boss and its helpers; each helper answers only when ``expected`` of them are at work."""

    name = "meeting"
    context_window = None

    def __init__(self, *inputs: str, expected: int, helper_call: ToolCall | None = None) -> None:
        self.inputs = inputs
        self.expected = expected
        self.helper_call = helper_call
        self.at_work = 0
        self.most_at_work = 0
        self.all_here = anyio.Event()
        self.boss_read: list[str] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        speaker = request.system.split()[0]
        last = request.messages[-1]
        if speaker == "Helper":
            if self.helper_call and not last.results:
                yield ToolCall(f"call-{last.text}", self.helper_call.name, {"text": last.text})
                yield TurnEnd("tool_use", Usage(10, 5))
                return
            await self._meet()
            yield TextDelta("helped")
            yield TurnEnd("end", Usage(10, 5))
        elif not last.results:
            for number, task in enumerate(self.inputs):
                yield ToolCall(f"boss-{number}", "helper", {"input": task})
            yield TurnEnd("tool_use", Usage(10, 5))
        else:
            yield TextDelta("done")
            yield TurnEnd("end", Usage(10, 5))

    async def _meet(self) -> None:
        self.at_work += 1
        self.most_at_work = max(self.most_at_work, self.at_work)
        if self.at_work == self.expected:
            self.all_here.set()
        try:
            with anyio.fail_after(DEADLINE):
                await self.all_here.wait()
                # Let every helper that could start do so before the first one ends.
                await anyio.wait_all_tasks_blocked()
        finally:
            self.at_work -= 1

    async def aclose(self) -> None:
        """Nothing is open."""


def helpers(
    tree: Tree, *sections: str, approval: str = "preApproved", parallel: int | None = None
) -> None:
    """Write a boss that may call ``helper``, which has ``sections`` as toolsets."""
    limit = "" if parallel is None else f"parallel: {parallel}, "
    tree.boss(f"workers: {{allowed: [helper], {limit}approval: {{default: {approval}}}}}")
    lines = "".join(f"  {section}\n" for section in sections) or "  plan:\n"
    tree.project.write(
        "helper.yaml", f"name: helper\ninstructions: Helper of yours.\ntoolsets:\n{lines}"
    )


def test_two_children_of_one_turn_run_in_parallel(tree: Tree) -> None:
    helpers(tree)
    model = Meeting("one", "two", expected=2)
    seen = tree.run(model=model)
    assert seen.result.exit_code == ExitCode.DONE
    assert texts(seen) == ["helped", "helped"]
    assert unanswered(seen) == []


def test_four_children_run_in_parallel_by_default(
    tree: Tree,
) -> None:
    helpers(tree)
    model = Meeting(*"abcdef", expected=4)
    assert tree.run(model=model).result.exit_code == ExitCode.DONE
    assert model.most_at_work == 4


def test_more_children_run_in_parallel_if_the_worker_allows_it(tree: Tree) -> None:
    helpers(tree, parallel=6)
    model = Meeting(*"abcdef", expected=6)
    assert tree.run(model=model).result.exit_code == ExitCode.DONE
    assert model.most_at_work == 6


def test_children_run_in_sequence_with_parallel_1(tree: Tree) -> None:
    helpers(tree, parallel=1)
    model = Meeting("one", "two", "three", expected=1)
    assert tree.run(model=model).result.exit_code == ExitCode.DONE
    assert model.most_at_work == 1


@pytest.mark.parametrize("value", ["0", "65", "many", "1.5"])
def test_invalid_number_of_parallel_children_is_an_error_with_its_place(
    tree: Tree, value: str
) -> None:
    tree.boss(f"workers: {{allowed: [helper], parallel: {value}}}")
    tree.worker("helper", "helped")
    with pytest.raises(ForgeError, match=r"boss\.yaml:\d+:\d+: .*parallel"):
        tree.run("done")


def test_children_that_ask_run_in_parallel_after_one_question_each(tree: Tree) -> None:
    helpers(tree, approval="ask")
    model = Meeting("one", "two", expected=2)
    seen = tree.run(model=model, answers=[True, True])
    assert texts(seen) == ["helped", "helped"]
    assert model.most_at_work == 2


def test_questions_of_children_come_one_at_a_time_and_name_their_worker(tree: Tree) -> None:
    helpers(tree, custom("risky"))
    model = Meeting("one", "two", expected=2, helper_call=ToolCall("x", "risky", {}))
    open_questions = 0

    async def answer(request: ApprovalRequest) -> bool:
        nonlocal open_questions
        open_questions += 1
        await anyio.wait_all_tasks_blocked()
        alone = open_questions == 1
        open_questions -= 1
        return alone

    seen = tree.run(model=model, approval_callback=answer)
    asked = [event.origin.path for event in seen.of(ApprovalRequired) if event.origin]
    assert asked == [("boss", "helper")] * 2
    assert texts(seen) == ["helped", "helped"]
    assert sorted(tree.notes) == ["one", "two"]


def test_no_to_one_child_does_not_stop_the_other(tree: Tree) -> None:
    helpers(tree, approval="ask")
    model = Meeting("one", "two", expected=1)
    seen = tree.run(model=model, answers=[False, True])
    assert sorted(event.status for event in results(seen)) == ["denied", "success"]
    assert seen.result.exit_code == ExitCode.DONE


def test_no_child_starts_during_a_question_whose_no_ends_the_work(tree: Tree) -> None:
    helpers(tree, approval="ask")
    seen = tree.run(model=Meeting("one", "two", expected=1), on_ask=OnAsk.FAIL)
    assert seen.result.exit_code == ExitCode.DENIED
    assert results(seen)[0].status == "denied"
    assert not [line for line in seen.lines if line["type"] == "workerUpdate"]


def test_interrupt_ends_all_children(tree: Tree) -> None:
    helpers(tree)
    signal = InterruptSignal()
    model = Meeting("one", "two", expected=3)
    at_work = 0

    def interrupt_when_both_work(line: Any) -> None:
        nonlocal at_work
        if line.type == "turnStart" and line.worker == "helper":
            at_work += 1
            if at_work == 2:
                signal.interrupt()

    seen = tree.run(model=model, interrupt_signal=signal, sinks=[interrupt_when_both_work])
    assert [event.status for event in results(seen)] == ["interrupted", "interrupted"]
    assert unanswered(seen) == []
    ended = [
        line["status"]
        for line in seen.lines
        if line["type"] == "workerUpdate" and line["status"] != "started"
    ]
    assert ended == ["interrupted", "interrupted"]


def test_limit_of_the_parent_counts_usage_of_all_children(tree: Tree) -> None:
    tree.boss(allowed("helper"), more="limits: {max_tokens: 30}\n")
    tree.project.write(
        "helper.yaml", "name: helper\ninstructions: Helper of yours.\ntoolsets: {plan: }\n"
    )
    seen = tree.run(model=Meeting("one", "two", "three", expected=3))
    assert seen.result.exit_code == ExitCode.LIMIT
    assert unanswered(seen) == []


def test_questions_of_two_children_are_parked_and_both_resume(tree: Tree) -> None:
    tree.boss(allowed("helper"))
    call_risky = {"calls": [{"tool": "risky", "input": {"text": "{task}"}}]}
    tree.worker("helper", call_risky, "helped {task}", toolsets=(custom("risky"),))
    turn = {"calls": [{"tool": "helper", "input": {"input": name}} for name in ("one", "two")]}
    parked = tree.park(turn, "done")
    assert parked.result.exit_code == ExitCode.PARKED
    assert len([line for line in parked.lines if line["type"] == "approvalRequired"]) == 2
    resumed = tree.go_on(parked, turn, "done")
    assert resumed.result.exit_code == ExitCode.DONE
    assert sorted(tree.notes) == ["one", "two"]
    assert unanswered(resumed) == []


def test_failing_child_leaves_the_answers_of_others_in_order(tree: Tree) -> None:
    tree.boss("workers: {allowed: [slow, broken], approval: {default: preApproved}}")
    tree.worker("slow", "slow answer")
    tree.project.write(
        "broken.yaml", "name: broken\nmodel: script:absent.yaml\ntoolsets: {plan: }\n"
    )
    turn = {"calls": [{"tool": name, "input": {"input": "x"}} for name in ("broken", "slow")]}
    seen: Seen = tree.run(turn, "{results[1]}")
    assert seen.result.response == "slow answer"
    assert sorted(event.status for event in results(seen)) == ["error", "success"]
