"""A worker that calls another: inputs, results, questions, and limits of the tree.

Covers forge_cli.files.allowed, forge_cli.engine.runtime.children.
"""

import pytest

from forge_cli import ApprovalDecision, WorkerRuntime, load_worker
from forge_cli.core.events import ApprovalDecided, WorkerUpdate
from forge_cli.engine.gate.steps import Caller
from forge_cli.events import ToolOutcome, Usage
from forge_cli.process.signals import in_loop
from forge_cli.testing import call, calls, scripted_model
from tests.support.tree import (
    ASK_HELPER,
    Tree,
    Voices,
    allowed,
    custom,
    recorded,
    results,
    script,
    texts,
    unanswered,
)


def test_answer_of_a_child_is_the_result_of_the_call(tree: Tree) -> None:
    tree.worker("helper", "helped: {task}")
    seen = tree.run(ASK_HELPER, "It is: {result}")
    assert seen.result.response == "It is: helped: do it"
    assert texts(seen) == ["helped: do it"]


def test_child_sees_only_its_task(tree: Tree) -> None:
    tree.project.write(
        "helper.yaml", "name: helper\ninstructions: Helper is your name.\nenvironment: false\n"
    )
    asked = ("helper", {"input": "do it", "instructions": "Quickly."})
    model = Voices(You=[asked, "done"], Helper=["helped"])
    assert tree.run(model=model, task="a secret plan").result.response == "done"
    _, request, _ = model.heard
    assert [message.text for message in request.messages] == [
        "do it\n\nFurther instructions for this task:\nQuickly."
    ]
    assert (request.system, list(request.tools)) == ("Helper is your name.", [])


def test_events_name_their_worker(tree: Tree) -> None:
    tree.worker("helper", calls(call("note", text="x")), "helped", toolsets=(custom("note"),))
    seen = tree.run(ASK_HELPER, "done")
    told = [(line.worker, line.depth, line.type) for line in recorded(seen)]
    turn, called = (
        ["turnStart", "message", "turnEnd"],
        ["toolStarted", "approvalDecided", "toolResult"],
    )
    assert [kind for worker, depth, kind in told if (worker, depth) == ("helper", 1)] == [
        *("workerUpdate", "status", "message", *turn, *called, *turn, "workerUpdate")
    ]
    assert [kind for worker, depth, kind in told if (worker, depth) == ("boss", 0)] == [
        *("sessionStart", "message", *turn, *called, *turn, "sessionEnd")
    ]
    assert len({line["delegation"] for line in seen.lines if line["depth"] == 1}) == 1
    assert not any("delegation" in line for line in seen.lines if line["depth"] == 0)
    assert unanswered(seen) == []


def test_worker_updates_have_depth_parent_and_usage(tree: Tree) -> None:
    tree.worker("helper", calls(call("leaf", input="x")), "helped", toolsets=(allowed("leaf"),))
    tree.worker("leaf", "a leaf")
    seen = tree.run(ASK_HELPER, "done")
    updates = [line for line in seen.lines if line["type"] == "workerUpdate"]
    assert [
        (line["worker"], line["depth"], line["status"], line["parent"]) for line in updates
    ] == [
        ("helper", 1, "started", "boss"),
        ("leaf", 2, "started", "helper"),
        ("leaf", 2, "completed", "helper"),
        ("helper", 1, "completed", "boss"),
    ]
    assert [line.get("within") for line in updates] == [None, *[updates[0]["delegation"]] * 2, None]
    assert [line.get("turns") for line in updates] == [None, None, 1, 2]
    assert seen.of(WorkerUpdate)[1].origin.path == ("boss", "helper", "leaf")


def test_delegations_of_one_turn_run_in_order(tree: Tree) -> None:
    tree.boss("workers: {allowed: [helper], parallel: 1, approval: {default: preApproved}}")
    tree.worker(
        "helper", calls(call("note", text="{task}")), "helped {task}", toolsets=(custom("note"),)
    )
    turn = calls(*(call("helper", input=f"task {number}") for number in range(3)))
    seen = tree.run(turn, "{results[0]}, {results[1]}, {results[2]}")
    assert seen.result.response == "helped task 0, helped task 1, helped task 2"
    assert tree.notes == ["task 0", "task 1", "task 2"]
    assert len({line["delegation"] for line in seen.lines if line["type"] == "workerUpdate"}) == 3


def test_usage_of_children_is_added(tree: Tree) -> None:
    tree.project.home.mkdir()
    prices = "models: {voices: {price: {input: 1000000, output: 2000000}}}\n"
    (tree.project.home / "config.yaml").write_text(prices)
    tree.project.write(
        "helper.yaml",
        f"name: helper\ninstructions: Helper .\ntoolsets:\n  {custom('note', 'risky')}\n",
    )
    helper = [("note", {"text": "x"}), ("risky", {"text": "y"}), "helped"]
    seen = tree.run(model=Voices(You=[("helper", {"input": "do it"}), "done"], Helper=helper))
    result = seen.result
    assert (result.usage, result.cost) == (Usage(50, 25), 50 + 2 * 25)
    assert (result.turns, result.tool_calls) == (2, 3)
    assert [(denial["tool"], denial["by"]) for denial in result.denials] == [("risky", "headless")]
    (ended,) = [
        line
        for line in seen.lines
        if line.get("status") == "completed" and line["type"] == "workerUpdate"
    ]
    assert ended["usage"]["inputTokens"] == 30


def test_custom_tool_can_call_workers(tree: Tree) -> None:
    tree.boss(custom("both", "at_once"))
    tree.worker("one", "one: {task}")
    tree.worker("two", "two: {task}")
    seen = tree.run(calls(call("both")), calls(call("at_once")), "done")
    assert texts(seen) == [
        "one: first and two: second\n\nFurther instructions for this task:\nBe quick.",
        "one: one and two: two",
    ]


def test_program_can_call_the_tool_of_a_worker(tree: Tree) -> None:
    tree.worker("helper", "helped: {task}")

    async def invoke() -> ToolOutcome:
        worker = load_worker("boss.yaml")
        async with WorkerRuntime(
            worker=worker, model=scripted_model(), workspace=tree.project.folder
        ) as runtime:
            return await runtime.invoke("helper", {"input": "x"}, Caller.OPERATOR)

    assert in_loop(invoke).text() == "helped: x"


@pytest.mark.long
def test_manually_called_tool_cannot_call_workers(tree: Tree) -> None:
    tree.worker("helper", "helped")
    tree.boss(allowed("helper"), more="model: script:helper.script.yaml")
    done = tree.project.forge("tools", "call", "helper", "--worker", "boss.yaml", "input=x", "-y")
    assert done.returncode == 1
    assert "not called by a running worker" in done.stderr


# Which model speaks


def test_worker_without_a_model_uses_the_model_of_its_caller(
    tree: Tree,
) -> None:
    tree.project.write("helper.yaml", "name: helper\n")
    tree.project.write("main.yaml", script(ASK_HELPER, "said: {result}"))
    seen = tree.run(model="script:main.yaml")
    assert texts(seen, 1) == ["there is no tool 'helper'; the tools are: none"]
    assert seen.result.response == "said: said: there is no tool 'helper'; the tools are: none"


def test_model_flag_applies_only_to_the_root(tree: Tree) -> None:
    tree.worker("helper", "my own words")
    tree.boss(allowed("helper"), more="model: script:nowhere.yaml")
    tree.project.write("main.yaml", script(ASK_HELPER, "said: {result}"))
    assert tree.run(model="script:main.yaml").result.response == "said: my own words"


# Consent


def test_question_of_a_child_reaches_the_person(tree: Tree) -> None:
    tree.worker("helper", calls(call("leaf", input="x")), "helped", toolsets=(allowed("leaf"),))
    tree.worker("leaf", calls(call("risky", text="x")), "{result}", toolsets=(custom("risky"),))
    seen = tree.run(ASK_HELPER, "done", answers=[True])
    assert [request.description for request in seen.asked] == [
        "boss > helper > leaf wants to call risky"
    ]
    assert texts(seen, 2) == ["noted x"]


def test_delegation_asks_like_a_tool_without_own_approval(tree: Tree) -> None:
    tree.worker("helper", "helped")
    tree.boss("workers: {allowed: [helper]}")
    seen = tree.run(ASK_HELPER, "done", answers=[ApprovalDecision(False, note="not now")])
    assert [request.description for request in seen.asked] == ["boss wants to call helper"]
    assert texts(seen) == ["helper was not called; the user said no: not now"]
    tree.boss("workers: {allowed: [helper], approval: {tools: {helper: blocked}}}")
    assert [event.status for event in results(tree.run(ASK_HELPER, "done"))] == ["blocked"]


def test_grants_are_not_shared_between_parent_and_child(tree: Tree) -> None:
    same = calls(call("risky", text="x"))
    tree.boss(allowed("helper"), custom("risky"))
    tree.worker("helper", same, same, "helped", toolsets=(custom("risky"),))
    yes = ApprovalDecision(True, remember="session")
    turns = [same, same, ASK_HELPER, same, calls(call("helper", input="again")), "done"]
    seen = tree.run(*turns, answers=[yes] * 3)
    assert [request.description for request in seen.asked] == [
        "boss wants to call risky",
        "boss > helper wants to call risky",
        "boss > helper wants to call risky",
    ]
    assert [event.by for event in seen.of(ApprovalDecided) if event.verdict == "ask"] == [
        *("user", "memory", "user", "memory", "memory", "user", "memory")
    ]


@pytest.mark.parametrize(
    ("root", "own", "said"),
    [
        ("approve_all", "auto_deny", "auto_deny"),
        ("approve_all", "interactive", "forge could not ask"),
        ("approve_all", None, "noted x"),
        ("auto_deny", "interactive", "auto_deny"),
        ("interactive", None, "forge could not ask"),
    ],
)
def test_stricter_approval_mode_applies_to_a_child(
    tree: Tree, root: str, own: str | None, said: str
) -> None:
    more = f"approval: {{mode: {own}}}" if own else ""
    tree.worker(
        "helper", calls(call("risky", text="x")), "done", toolsets=(custom("risky"),), more=more
    )
    assert said in texts(tree.run(ASK_HELPER, "done", approval_mode=root), 1)[0]


@pytest.mark.long
def test_child_cannot_approve_everything(tree: Tree) -> None:
    tree.worker("helper", "helped", more="approval: {mode: approve_all}")
    done = tree.project.forge("worker", "check", "boss.yaml")
    assert done.returncode == 3
    assert "helper.yaml:3:18: approval.mode: a worker cannot approve its own calls" in done.stderr
    assert "'helper' is allowed in boss.yaml:5:23" in done.stderr


# Where the tree ends


def test_delegation_depth_is_limited_to_five(tree: Tree) -> None:
    for number in range(1, 7):
        below = f"w{number + 1}"
        turns = calls(call(below, input="x")), f"{number}: {{result}}"
        tree.worker(f"w{number}", *turns, toolsets=(allowed(below),))
    tree.worker("w7", "never reached")
    tree.boss(allowed("w1"))
    seen = tree.run(calls(call("w1", input="x")), "{result}")
    refusal = (
        "'w6' would be 6 workers deep, but the maximum is 5: boss > w1 > w2 > w3 > w4 > w5 > w6"
    )
    assert seen.result.response == f"1: 2: 3: 4: 5: {refusal}"
    assert max(line["depth"] for line in seen.lines) == 5
    assert [event.status for event in results(seen, 5)] == ["error"]


def test_running_worker_cannot_be_called_again(tree: Tree) -> None:
    tree.worker("helper", calls(call("boss", input="x")), "{result}", toolsets=(allowed("boss"),))
    sentence = "'boss' is already running and cannot call itself: boss > helper > boss"
    assert tree.run(ASK_HELPER, "{result}").result.response == sentence


def test_circular_delegation_through_a_link_is_found(tree: Tree) -> None:
    (tree.project.folder / "other.yaml").symlink_to("boss.yaml")
    tree.boss(allowed("./other.yaml"))
    assert (
        "is already running" in tree.run(calls(call("boss", input="x")), "{result}").result.response
    )


# How it can fail


FAILURES = {
    "the script ends": ([calls(call("nothing"))], "", "failed", "has 1 turn,"),
    "a limit": (
        [calls(call("nothing"))] * 3,
        "limits: {max_turns: 2}",
        "limit",
        "the limit of 2 turns was reached",
    ),
    "no such output": (
        ["no"] * 4,
        "output_schema: {type: object}",
        "invalid_output",
        "does not match its schema",
    ),
    "a zone is missing": (["x"], "sandbox: {zones: [{name: gone}]}", "failed", "helper.yaml:3:"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failed_child_is_an_error_result(tree: Tree, name: str) -> None:
    turns, more, status, sentence = FAILURES[name]
    tree.worker("helper", *turns, more=more)
    seen = tree.run(ASK_HELPER, "went on: {result}")
    assert texts(seen)[0].startswith(f"the worker 'helper' ended with {status}: ")
    assert sentence in texts(seen)[0]
    assert results(seen)[0].status == "error"
    assert seen.result.response.startswith("went on: ")
    assert [line["status"] for line in seen.lines if line["type"] == "workerUpdate"] == [
        "started",
        status,
    ]


def test_child_with_an_invalid_model_is_an_error_result(tree: Tree) -> None:
    tree.project.write("helper.yaml", "name: helper\nmodel: script:nowhere.yaml\n")
    text = texts(tree.run(ASK_HELPER, "went on"))[0]
    assert text.startswith("the worker 'helper' ended with failed: ")
    assert "nowhere.yaml" in text


def test_child_with_a_missing_toolset_is_an_error_result(tree: Tree) -> None:
    tree.worker("helper", "helped", toolsets=("shel: {}",))
    text = texts(tree.run(ASK_HELPER, "went on"))[0]
    assert "helper.yaml:5:3: toolsets.shel: no such toolset" in text
    assert "did you mean 'shell'?" in text


def test_child_whose_file_became_invalid_is_an_error_result(tree: Tree) -> None:
    tree.worker("helper", "helped")
    tree.boss(allowed("helper"), custom("rewrite"))
    seen = tree.run(
        calls(call("rewrite", path="helper.yaml", text="name: [\n")), ASK_HELPER, "done"
    )
    assert results(seen)[1].status == "error"
    assert "helper.yaml:1:8: " in texts(seen)[1]
    assert [line for line in seen.lines if line["type"] == "workerUpdate"] == []


def test_child_whose_file_changes_in_the_same_turn_is_not_called(tree: Tree) -> None:
    tree.worker("helper", "helped")
    tree.boss(allowed("helper"), custom("rewrite"))
    text = "name: helper\ndescription: Another one\nmodel: script:helper.script.yaml\n"
    both = calls(call("rewrite", path="helper.yaml", text=text), call("helper", input="x"))
    seen = tree.run(both, ASK_HELPER, "done")
    assert texts(seen)[1:] == [
        "the file of 'helper' has just changed; call it again to use the new one",
        "helped",
    ]
