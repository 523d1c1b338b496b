"""Questions of a child worker without a person: denied, ended by failure, or parked."""

import json

import pytest

from forge_cli.core.calls import call_identity
from forge_cli.core.events import WorkerUpdate
from forge_cli.events import OnAsk
from forge_cli.record.line import Line
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Seen, call, calls
from tests.support.tree import (
    ASK_HELPER,
    Tree,
    allowed,
    custom,
    recorded,
    script,
    texts,
    unanswered,
)

TURNS = [ASK_HELPER, "boss: {result}"]


@pytest.fixture
def chain(tree: Tree) -> Tree:
    """boss calls helper, which calls leaf, which makes a call and then one that asks."""
    leaf = [calls(call("note", text="before")), calls(call("risky", text="x")), "leaf: {result}"]
    tree.worker("leaf", *leaf, toolsets=(custom("note", "risky"),))
    tree.worker(
        "helper", calls(call("leaf", input="x")), "helper: {result}", toolsets=(allowed("leaf"),)
    )
    tree.boss(allowed("helper"), more="model: script:boss.script.yaml")
    tree.project.write("boss.script.yaml", script(*TURNS))
    return tree


def test_call_is_denied_at_every_depth(chain: Tree) -> None:
    seen = chain.run(*TURNS)
    assert (seen.result.status, seen.result.exit_code) == ("completed", 0)
    assert seen.result.response.startswith("boss: helper: leaf: risky was not called; denied")
    assert [denial["tool"] for denial in seen.result.denials] == ["risky"]


def test_on_ask_fail_ends_the_work_from_any_depth(chain: Tree) -> None:
    done = chain.project.forge(
        "run", "boss.yaml", "go", "--on-ask", "fail", "--output-format", "json"
    )
    result = json.loads(done.stdout)
    assert (done.returncode, result["status"]) == (4, "denied")
    assert [denial["tool"] for denial in result["denials"]] == ["risky"]
    assert (
        "the worker 'helper' was stopped: the worker 'leaf' was stopped: risky was not called"
        in result["error"]
    )


@pytest.mark.long
def test_on_ask_fail_leaves_other_calls_of_the_turn_unmade(chain: Tree) -> None:
    chain.boss(allowed("helper"), custom("note"), more="model: script:boss.script.yaml")
    both = calls(call("helper", input="x"), call("note", text="after"))
    chain.project.write("boss.script.yaml", script(both, "never"))
    done = chain.project.forge("run", "boss.yaml", "go", "--on-ask", "fail", "-p")
    assert done.returncode == 4
    assert chain.notes == ["before"]


def test_parked_child_continues_at_its_call(chain: Tree) -> None:
    seen = chain.park(*TURNS)
    assert (seen.result.status, seen.result.exit_code) == ("parked", 10)
    assert "parked: helper: leaf: risky waits for an answer" in str(seen.result.error)
    assert [update.status for update in seen.of(WorkerUpdate)] == [
        "started",
        "started",
        "parked",
        "parked",
    ]
    again = chain.go_on(seen, *TURNS)
    assert again.result.response == "boss: helper: leaf: noted x"
    assert chain.notes == ["before", "x"]
    assert again.result.turns == 1
    assert [update.status for update in again.of(WorkerUpdate)] == [
        "resumed",
        "resumed",
        "completed",
        "completed",
    ]
    tasks = [
        {update.origin.delegation for update in each.of(WorkerUpdate)} for each in (seen, again)
    ]
    assert tasks[0] == tasks[1]
    assert unanswered(again) == []


def test_turn_of_the_model_is_never_repeated(chain: Tree) -> None:
    again = chain.go_on(chain.park(*TURNS), *TURNS)
    said = [
        (line.worker, line.data["message"]["content"])
        for line in recorded(again)
        if line.type == "message"
    ]
    assert len([worker for worker, _ in said if worker == "leaf"]) == 4
    assert len([worker for worker, _ in said if worker == "helper"]) == 3
    assert len([worker for worker, _ in said if worker == "boss"]) == 3


def test_no_reaches_the_worker_that_asked(chain: Tree) -> None:
    again = chain.go_on(chain.park(*TURNS), *TURNS, approved=False)
    assert again.result.response == "boss: helper: leaf: risky was not called; the user said no"


def test_session_can_be_parked_repeatedly(tree: Tree) -> None:
    asks = [calls(call("risky", text=text)) for text in "abc"]
    tree.worker("helper", *asks, "helped", toolsets=(custom("risky"),))
    seen = tree.park(*TURNS)
    for expected in (["a"], ["a", "b"]):
        seen = tree.go_on(seen, *TURNS, on_ask=OnAsk.PARK)
        assert (seen.result.status, tree.notes) == ("parked", expected)
    again = tree.go_on(seen, *TURNS)
    assert (again.result.response, tree.notes) == ("boss: helped", ["a", "b", "c"])
    assert unanswered(again) == []


@pytest.mark.long
def test_session_without_anybody_to_ask_is_parked_again(chain: Tree) -> None:
    seen = chain.park(*TURNS)
    lines = recorded(seen)
    again = chain.run(*TURNS, task="", resume=Resumed(read_past(lines), lines[-1]))
    assert "risky was not called; denied: forge could not ask" in again.result.response


def test_other_calls_of_a_parked_turn_wait(tree: Tree) -> None:
    tree.boss(allowed("helper"), custom("risky", "note"))
    tree.worker("helper", calls(call("risky", text="below")), "helped", toolsets=(custom("risky"),))
    many = calls(
        call("note", text="1"),
        call("helper", input="do it"),
        call("risky", text="2"),
        call("note", text="3"),
    )
    turns = [many, "{results[1]}, {results[2]}, {results[3]}"]
    seen = tree.park(*turns)
    assert [line["toolName"] for line in seen.lines if line["type"] == "approvalRequired"] == [
        "risky",
        "risky",
    ]
    assert tree.notes == ["1"]
    again = tree.go_on(seen, *turns)
    assert again.result.response == "helped, noted 2, noted 3"
    assert tree.notes == ["1", "below", "2", "3"]
    assert unanswered(again) == []


def test_tool_that_calls_two_workers_continues_with_the_second(tree: Tree) -> None:
    tree.boss(custom("both"))
    tree.worker("one", calls(call("note", text="one")), "one: {task}", toolsets=(custom("note"),))
    tree.worker("two", calls(call("risky", text="two")), "two", toolsets=(custom("risky"),))
    turns = [calls(call("both")), "{result}"]
    seen = tree.park(*turns)
    assert tree.notes == ["both starts", "one"]
    again = tree.go_on(seen, *turns)
    assert again.result.response == "one: first and two"
    assert tree.notes == ["both starts", "one", "both starts", "two"]


def test_parallel_workers_are_parked_together(tree: Tree) -> None:
    tree.boss(custom("look"))
    for name in ("one", "two", "three"):
        turn = calls(call("note" if name == "two" else "risky", text=name))
        tree.worker(name, turn, f"{name}: {{result}}", toolsets=(custom("note", "risky"),))
    turns = [
        calls(*(call("look", name=name) for name in ("one", "two", "three"))),
        "{results[0]}, {results[1]}, {results[2]}",
    ]
    seen = tree.park(*turns)
    assert (seen.result.status, tree.notes) == ("parked", ["two"])
    again = tree.go_on(seen, *turns)
    assert again.result.response == "one: noted one, two: noted two, three: noted three"
    assert sorted(tree.notes) == ["one", "three", "two"]
    assert unanswered(again) == []


def test_worker_whose_file_changed_asks_again(chain: Tree) -> None:
    seen = chain.park(*TURNS)
    chain.project.write("tools.py", chain.project.read("tools.py") + "\n# changed\n")
    again = chain.go_on(seen, *TURNS)
    assert "forge could not ask" in again.result.response
    assert any(
        "changed since it was approved" in line.get("message", "")
        for line in again.lines
        if "level" in line
    )


def test_worker_whose_file_is_missing_is_an_error_result(chain: Tree) -> None:
    seen = chain.park(*TURNS)
    chain.boss(allowed("other"), more="model: script:boss.script.yaml")
    chain.worker("other", "x")
    (chain.project.folder / "helper.yaml").unlink()
    again = chain.go_on(seen, *TURNS)
    assert "there is no tool 'helper'" in texts(again)[0]


@pytest.mark.long
def test_command_line_parks_and_resumes_a_child(chain: Tree) -> None:
    forge = chain.project.forge
    assert forge("run", "boss.yaml", "go", "--on-ask", "park", "-p").returncode == 10
    (log,) = (chain.project.home / "sessions").glob("*.jsonl")
    done = forge("run", "boss.yaml", "-r", log.stem, "-p", "-y")
    assert (done.returncode, done.stdout) == (0, "boss: helper: leaf: noted x\n")
    assert chain.notes == ["before", "x"]


# Cut off


def cut(seen: Seen, worker: str, kind: str) -> list[Line]:
    """The log as it would be if the process had been killed right after such a line."""
    lines = recorded(seen)
    last = next(
        index for index, line in enumerate(lines) if (line.worker, line.type) == (worker, kind)
    )
    return lines[: last + 1]


@pytest.fixture
def noted(tree: Tree) -> Tree:
    """helper calls leaf, which notes something without asking."""
    tree.worker("leaf", calls(call("note", text="x")), "leaf: {result}", toolsets=(custom("note"),))
    tree.worker(
        "helper",
        calls(call("leaf", input="{task}")),
        "helper: {result}",
        toolsets=(allowed("leaf"),),
    )
    return tree


def test_interrupted_child_call_has_a_result(noted: Tree) -> None:
    turns = [ASK_HELPER, "boss: {result}"]
    lines = cut(noted.run(*turns), "leaf", "approvalDecided")
    again = noted.run(*turns, task="", resume=Resumed(read_past(lines), lines[-1]))
    ended = [
        (line.worker, line.type, line.data["status"])
        for line in recorded(again)
        if line.data.get("status")
    ]
    assert ended == [
        ("leaf", "toolResult", "interrupted"),
        ("leaf", "workerUpdate", "interrupted"),
        ("helper", "toolResult", "interrupted"),
        ("helper", "workerUpdate", "interrupted"),
        ("boss", "toolResult", "interrupted"),
    ]
    again.record[:0] = lines
    assert unanswered(again) == []


def test_child_call_that_may_have_run_asks(noted: Tree) -> None:
    lines = cut(noted.run(ASK_HELPER, "boss: {result}"), "leaf", "approvalDecided")
    turns = [ASK_HELPER, calls(call("helper", input="in other words")), "boss: {result}"]
    resumed = Resumed(read_past(lines), lines[-1])
    again = noted.run(*turns, task="", resume=resumed, answers=[True])
    assert [request.description for request in again.asked] == [
        "boss > helper > leaf wants to call note"
    ]
    assert again.asked[0].reason == "note was interrupted with these arguments and may have run"
    assert again.result.response == "boss: helper: leaf: noted x"
    later = [*lines, *recorded(again)]
    left = {call_identity(name, {"input": "do it"}) for name in ("helper", "leaf")}
    assert read_past(later).in_flight == left


def test_completed_session_asks_nothing(noted: Tree) -> None:
    assert read_past(recorded(noted.run(ASK_HELPER, "boss: {result}"))).in_flight == frozenset()


@pytest.mark.few(4)
@pytest.mark.parametrize("step", range(0, 60, 6))
def test_log_cut_at_any_line_can_be_resumed(chain: Tree, step: int) -> None:
    lines = recorded(chain.run(*TURNS, approval_mode="approve_all"))
    kept = lines[: max(1, len(lines) * step // 60)]
    past = read_past(kept)
    again = chain.run(
        *TURNS, task="go", resume=Resumed(past, kept[-1]), approval_mode="approve_all"
    )
    again.record[:0] = kept
    assert unanswered(again) == []
    assert again.result.status in ("completed", "failed")
