"""The end of a worker ends all its children: limits, signals, tool timeouts, cancelling programs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import anyio
import pytest

from forge_cli import EventBus, InterruptSignal, WorkerRuntime, load_worker
from forge_cli.core.events import Event, StatusEvent, WorkerUpdate
from forge_cli.embedding import Limits
from forge_cli.events import Usage
from forge_cli.testing import call, calls, scripted_model
from tests.support.tree import (
    ASK_HELPER,
    Tree,
    Voices,
    allowed,
    custom,
    results,
    script,
    texts,
    unanswered,
)

LEAF = (custom("hold", "note"),)
BELOW = ("workers: {allowed: [leaf], parallel: 1, approval: {default: preApproved}}",)
SHELL = ("shell: {default: preApproved}",)


@pytest.fixture
def held(tree: Tree) -> Tree:
    """boss calls helper, which calls leaf, which waits for ever."""
    tree.worker(
        "leaf",
        calls(call("note", text="x"), call("hold"), call("note", text="y")),
        "never",
        toolsets=LEAF,
    )
    tree.worker(
        "helper",
        calls(call("leaf", input="x"), call("leaf", input="again")),
        "never",
        toolsets=BELOW,
    )
    return tree


def when_held(act: Callable[[], object]) -> EventBus:
    """A bus with an action as soon as the holding tool runs."""
    bus = EventBus()

    def watch(event: Event) -> None:
        if isinstance(event, StatusEvent) and event.message == "holding":
            act()

    bus.subscribe(watch)
    return bus


def test_interrupt_ends_all_descendants_in_order(held: Tree) -> None:
    interrupt = InterruptSignal()
    seen = held.run(
        ASK_HELPER, "never", interrupt_signal=interrupt, bus=when_held(interrupt.interrupt)
    )
    assert (seen.result.status, seen.result.response) == ("interrupted", "[Interrupted]")
    assert held.notes == ["x", "let go"]
    assert [event.status for event in results(seen, 2)] == ["success", "interrupted", "interrupted"]
    assert [event.status for event in results(seen, 1)] == ["interrupted", "interrupted"]
    assert [event.status for event in results(seen)] == ["interrupted"]
    assert [update.status for update in seen.of(WorkerUpdate)][-2:] == [
        "interrupted",
        "interrupted",
    ]
    assert unanswered(seen) == []


@pytest.mark.long
def test_time_limit_of_the_root_applies_to_all(held: Tree) -> None:
    started = time.monotonic()
    seen = held.run(ASK_HELPER, "never", limits=Limits(max_time=3))
    assert time.monotonic() - started < 20
    assert (seen.result.status, seen.result.exit_code) == ("limit", 5)
    assert seen.result.error == "the limit of 3 seconds was reached"
    assert held.notes == ["x", "let go"]
    (helper,) = [
        update for update in seen.of(WorkerUpdate) if update.origin.depth == 1 and update.error
    ]
    assert helper.error == "the limit of 3 seconds of the worker 'boss' was reached"
    assert unanswered(seen) == []


def test_time_limit_of_a_worker_ends_only_itself_and_its_descendants(held: Tree) -> None:
    turns = calls(call("leaf", input="x")), "helper: {result}"
    held.worker("helper", *turns, toolsets=BELOW, more="limits: {max_time: 2}")
    seen = held.run(ASK_HELPER, "boss: {result}")
    assert seen.result.status == "completed"
    assert seen.result.response == (
        "boss: the worker 'helper' ended with limit: the limit of 2 seconds was reached"
    )
    assert held.notes == ["x", "let go"]


def test_tool_timeout_ends_the_worker_that_it_called(tree: Tree) -> None:
    tree.boss(custom("hasty"))
    tree.worker("helper", calls(call("hold")), "never", toolsets=(custom("hold"),))
    seen = tree.run(calls(call("hasty")), "boss: {result}")
    assert seen.result.response == "boss: hasty was stopped after 0.5 seconds"
    assert [event.status for event in seen.outcomes] == ["interrupted", "timeout"]
    assert tree.notes == ["let go"]
    assert unanswered(seen) == []


def test_cancelling_program_does_not_wait(held: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Event] = []

    async def cancelled() -> None:
        with anyio.CancelScope() as scope:
            bus = when_held(scope.cancel)
            bus.subscribe(seen.append)
            model = scripted_model(ASK_HELPER, "never")
            worker = load_worker("boss.yaml")
            async with WorkerRuntime(
                worker=worker, model=model, bus=bus, workspace=held.project.folder
            ) as runtime:
                await runtime.run("go")
        assert scope.cancelled_caught

    async def main() -> None:
        with anyio.fail_after(60):
            await cancelled()

    anyio.run(main)
    assert held.notes == ["x", "let go"]
    assert [event.status for event in seen if isinstance(event, WorkerUpdate)][-1] == "interrupted"


def test_token_limit_is_shared(tree: Tree) -> None:
    tree.project.write(
        "helper.yaml", f"name: helper\ninstructions: Helper .\ntoolsets:\n  {custom('note')}\n"
    )
    asked, noted = ("helper", {"input": "x"}), ("note", {"text": "x"})
    model = Voices(You=[asked, "never"], Helper=[noted] * 9)
    seen = tree.run(model=model, limits=Limits(max_tokens=40))
    assert (seen.result.status, seen.result.usage) == ("limit", Usage(30, 15))
    assert texts(seen) == [
        "the worker 'helper' ended with limit: the limit of 40 tokens of the worker 'boss' was reached"
    ]
    assert seen.result.error == "the limit of 40 tokens was reached"


def test_limits_of_a_worker_apply_only_to_itself(tree: Tree) -> None:
    text = "name: helper\ninstructions: Helper .\nlimits: {max_tokens: 20}\n"
    tree.project.write("helper.yaml", f"{text}toolsets:\n  {custom('note')}\n")
    asked, noted = ("helper", {"input": "x"}), ("note", {"text": "x"})
    seen = tree.run(model=Voices(You=[asked, "went on"], Helper=[noted] * 9))
    assert (seen.result.status, seen.result.response) == ("completed", "went on")
    assert texts(seen) == [
        "the worker 'helper' ended with limit: the limit of 20 tokens was reached"
    ]


def test_unknown_cost_of_a_child_is_refused(tree: Tree) -> None:
    tree.project.home.mkdir()
    prices = "models: {'script:main.yaml': {price: {input: 1, output: 1}}}\n"
    (tree.project.home / "config.yaml").write_text(prices)
    tree.project.write("main.yaml", script(ASK_HELPER, "went on"))
    tree.worker("helper", "helped")
    seen = tree.run(model="script:main.yaml", limits=Limits(max_cost=1))
    assert results(seen)[0].status == "error"
    assert "price" in texts(seen)[0]


def test_third_identical_refusal_ends_the_worker_that_made_it(tree: Tree) -> None:
    asks = [calls(call("risky", text="x"))] * 4
    tree.worker("helper", *asks, "never", toolsets=(custom("risky"),))
    seen = tree.run(ASK_HELPER, "boss: {result}")
    assert (
        "the worker 'helper' ended with limit: risky was denied three times" in seen.result.response
    )
    assert len(seen.result.denials) == 3


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_whole_tree(held: Tree, number: signal.Signals, code: int) -> None:
    project = held.project
    os.mkfifo(project.folder / "pipe")
    held.worker("leaf", calls(call("shell", command="cat pipe")), "never", toolsets=SHELL)
    held.boss(allowed("helper"), more="model: script:boss.script.yaml")
    project.write("boss.script.yaml", script(ASK_HELPER, "never"))
    process = subprocess.Popen(
        [sys.executable, "-m", "forge_cli", "run", "boss.yaml", "go", "--json"],
        cwd=project.folder,
        env={**os.environ, "FORGE_HOME": str(project.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        assert process.stdout
        lines = []
        for text in process.stdout:
            lines.append(json.loads(text))
            if lines[-1]["type"] == "approvalDecided" and lines[-1]["worker"] == "leaf":
                process.send_signal(number)
        assert process.wait(20) == code
    ended = [(line["worker"], line["status"]) for line in lines if line["type"] == "toolResult"]
    assert ended == [
        ("leaf", "interrupted"),
        ("helper", "interrupted"),
        ("helper", "interrupted"),
        ("boss", "interrupted"),
    ]
    assert lines[-1]["type"] == "sessionEnd"
    assert lines[-1]["result"]["status"] == "interrupted"
