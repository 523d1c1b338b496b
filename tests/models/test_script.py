"""script:FILE, the scripted model: its words, its calls, its placeholders, and how it fails when it is left alone."""

import json
from typing import Any

import pytest

from forge_cli import ForgeError
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import StatusEvent, Streaming, ToolStarted
from forge_cli.engine.turns.output import OutputSchema
from forge_cli.testing import Project, Seen, call, calls

TOOLS = "def echo(text: str) -> str: return text\ndef deep(data: dict) -> dict: return data\n"
WORKER = "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [echo, deep], approval: {default: preApproved}}}\n"


@pytest.fixture
def worker(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    return project


def played(project: Project, script: str, **options: Any) -> Seen:
    project.write("script.yaml", script)
    return project.run(model="script:script.yaml", **options)


def response(seen: Seen) -> str:
    assert seen.result.status == "completed"
    return seen.result.response


def test_script_is_played_turn_by_turn(worker: Project) -> None:
    script = (
        "turns:\n"
        "  - text: Let me see.\n"
        "    calls: [{tool: echo, input: {text: 6765}}, {tool: echo, input: {text: two}}]\n"
        "  - expect: {result: two}\n"
        '    text: "It is {result}."\n'
    )
    seen = played(worker, script.replace("6765", "'6765'"))
    assert response(seen) == "It is two."
    assert seen.result.model == "script:script.yaml"
    assert [(e.tool_call_id, e.tool_name, dict(e.args)) for e in seen.of(ToolStarted)] == [
        ("call_1_1", "echo", {"text": "6765"}),
        ("call_1_2", "echo", {"text": "two"}),
    ]
    assert [event.delta for event in seen.of(Streaming)] == [
        "Let ",
        "me ",
        "see.",
        "",
        "It ",
        "is ",
        "two.",
        "",
    ]


def test_scripted_model_is_announced(worker: Project) -> None:
    seen = played(worker, "turns: [{text: hi}]")
    announced = (
        "the model is scripted: its words come from script.yaml, and nothing leaves this machine"
    )
    assert StatusEvent("info", announced) in seen.events


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("{result}", "two"),
        ("{results[0]} and {results[1]}", "one and two"),
        ("{task}!", "do it!"),
        ("{result}{result}", "twotwo"),
        (
            "{other} {} {0} {{result}} {results} {results[x]} {Result}",
            "{other} {} {0} {two} {results} {results[x]} {Result}",
        ),
        ('{"json": {"a": 1}}', '{"json": {"a": 1}}'),
        ("line one\n  {task}\n", "line one\n  do it\n"),
        ("", ""),
    ],
)
def test_placeholders_are_filled_in_text(worker: Project, text: str, spoken: str) -> None:
    seen = worker.run(calls(call("echo", text="one"), call("echo", text="two")), text, task="do it")
    assert response(seen) == spoken


def test_placeholders_inside_inputs_and_names_are_filled(worker: Project) -> None:
    data = {"list": ["{result}", 7, None, True], "nested": {"{task}": "{task} {results[0]}"}}
    seen = worker.run(
        calls(call("echo", text="{task}")),
        calls({"tool": "{result}", "input": {"data": data}}),
        "{result}",
        task="deep",
    )
    assert response(seen) == '{"list": ["deep", 7, null, true], "nested": {"{task}": "deep deep"}}'


def test_placeholder_in_a_result_is_not_filled(worker: Project) -> None:
    seen = worker.run(
        calls(call("echo", text="{x}")),
        calls(call("echo", text="{result}{x}")),
        "{result}",
        task="{result}",
    )
    assert response(seen) == "{x}{x}"


def failure(seen: Seen) -> str:
    assert (seen.result.status, seen.result.exit_code) == ("failed", 1)
    return str(seen.result.error)


def test_failed_expectation_is_an_error(worker: Project) -> None:
    script = "turns:\n  - calls: [{tool: echo, input: {text: no such luck}}]\n  - text: fine\n    expect: {result: '6765'}\n"
    seen = played(worker, script)
    assert failure(seen) == (
        f"{worker.folder / 'script.yaml'}:4:5: turn 2 of script:script.yaml expected a result with '6765', "
        "got 'no such luck'"
    )
    assert "".join(event.delta for event in seen.of(Streaming)) == ""


def test_expectation_without_results_is_an_error(worker: Project) -> None:
    seen = worker.run({"expect": {"result": "x"}, "text": "fine"})
    assert failure(seen) == "turn 1 of script:test expected a result with 'x', got no results"


def test_last_result_is_known_after_a_later_message(worker: Project) -> None:
    schema = OutputSchema({"type": "object"})
    repaired = {"expect": {"result": "7"}, "text": '{"n": {result}}'}
    seen = worker.run(
        calls(call("echo", text="7")), "It is {result}.", repaired, output_schema=schema
    )
    assert seen.result.output == {"n": 7}


def test_missing_turn_is_named_by_number(worker: Project) -> None:
    seen = worker.run(calls(call("echo", text="a")), calls(call("echo", text="b")))
    assert failure(seen) == (
        "script:test has 2 turns, but turn 3 was requested\n"
        "  add a turn to the script, or check why the task was not done before"
    )
    assert seen.statuses == ["success", "success"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{result}", "the script uses {result}, but 0 results came before it"),
        ("{results[0]}", "the script uses {results[0]}, but 0 results came before it"),
    ],
)
def test_placeholder_for_a_missing_result_is_an_error(
    worker: Project, text: str, problem: str
) -> None:
    assert failure(worker.run(text)) == problem


def test_placeholder_beyond_the_results_names_its_place(worker: Project) -> None:
    script = "turns:\n  - calls: [{tool: echo, input: {text: a}}]\n  - text: '{results[1]}'\n"
    assert failure(played(worker, script)) == (
        f"{worker.folder / 'script.yaml'}:3:5: the script uses {{results[1]}}, but 1 result came before it"
    )


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("turn: []", "FILE:1:1: unknown key 'turn'; did you mean 'turns'?"),
        ("turns: [{txt: hi}]", "FILE:1:10: turns[0]: unknown key 'txt'; did you mean 'text'?"),
        (
            "turns:\n  - calls: [{tool: a, args: {}}]",
            "FILE:2:23: turns[0].calls[0]: unknown key 'args'; known here: input, tool",
        ),
        (
            "turns: [{calls: [{input: {}}]}]",
            "FILE:1:18: turns[0].calls[0].tool: this key is required",
        ),
        (
            "turns: [{expect: {text: x}}]",
            "FILE:1:19: turns[0].expect: unknown key 'text'; known here: result",
        ),
        ("turns: [{text: 7}]", "FILE:1:16: turns[0].text: must be a string, not 7"),
        ("turns: hello", "FILE:1:8: turns: must be a list, not 'hello'"),
        ("", "FILE:1:1: the file is empty; "),
    ],
)
def test_invalid_script_is_reported_with_its_place(
    worker: Project, script: str, problem: str
) -> None:
    with pytest.raises(WorkerError) as caught:
        played(worker, script)
    assert str(caught.value).replace(str(worker.folder / "script.yaml"), "FILE").startswith(problem)


def test_missing_script_is_an_error(worker: Project) -> None:
    with pytest.raises(ForgeError) as caught:
        worker.run(model="script:nowhere.yaml")
    assert str(worker.folder / "nowhere.yaml") in str(caught.value)
    assert caught.value.exit_code == 3


def test_call_ids_are_unique_in_a_session(worker: Project) -> None:
    worker.write("script.yaml", "turns: [{calls: [{tool: echo, input: {text: a}}]}, {text: done}]")
    for flags in ([], ["-c"], ["-c"]):
        done = worker.forge("run", "worker.yaml", "go", "-p", "-m", "script:script.yaml", *flags)
        assert (done.returncode, done.stdout) == (0, "done\n")
    shown = worker.forge("sessions", "show", "last", "--json").stdout
    started = [
        line for line in map(json.loads, shown.splitlines()) if line["type"] == "toolStarted"
    ]
    assert [line["toolCallId"] for line in started] == ["call_1_1", "call_2_1", "call_3_1"]
