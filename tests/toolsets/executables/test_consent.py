"""Whether a call of a program needs a yes, and how long that yes is good for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli import ApprovalDecision
from forge_cli.core.results import Text
from forge_cli.core.schema import JsonObject
from forge_cli.testing import Project, call, calls

WriteTool = Callable[..., Path]
ALWAYS = ApprovalDecision(True, remember="session")


def through(name: str, **args: object) -> JsonObject:
    return call("run_custom_tool", tool_name=name, arguments=args)


def section(project: Project, options: str) -> None:
    project.write("worker.yaml", f"name: w\ninstructions: x\ntoolsets:\n  executables: {options}\n")


def test_a_tool_is_silent_so_it_asks_and_shows_the_command(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    folder = write_tool("say", "echo hi", "version: 2.1.0", "parameters: [{name: word}]")
    seen = project.run(calls(call("say", word="x"), through("say", word="x")), "done", answers=[True, False])
    assert seen.statuses == ["success", "denied"]
    assert [request.risk for request in seen.asked] == ["high", "high"]
    shown = Text(f"{folder}/say.sh (version 2.1.0)\n--word=x")
    assert [request.preview for request in seen.asked] == [shown, shown]


def test_an_argument_cannot_pretend_to_be_two(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    write_tool("say", "echo hi", "parameters: [{name: word}]")
    seen = project.run(calls(call("say", word="x\n--force=no\x1b[2J")), "done", answers=[False])
    shown = seen.asked[0].preview
    assert isinstance(shown, Text)
    assert shown.content.splitlines()[1:] == ["--word=x\\n--force=no\\x1b[2J"]


def test_a_yes_for_the_session_ends_with_an_edit(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    folder = write_tool("say", "echo 1")
    both = calls(call("say"), through("say"))
    ended: list[JsonObject] = []

    def edit(line: JsonObject) -> None:
        ended.extend([line] if line["type"] == "toolResult" else [])
        if len(ended) == 4:
            (folder / "say.sh").write_text("echo 2")

    seen = project.run(both, both, both, "done", answers=[ALWAYS, ALWAYS, False, False], sinks=(edit,))
    assert seen.statuses == ["success"] * 4 + ["denied"] * 2
    assert len(seen.asked) == 4


@pytest.mark.parametrize(
    ("policy", "direct", "door"),
    [
        ("{default: preApproved}", "success", "success"),
        ("{default: preApproved, tools: {say: blocked}}", "blocked", "blocked"),
        ("{default: preApproved, tools: {say: ask}}", "denied", "denied"),
        ("{default: preApproved, tools: {run_custom_tool: blocked}}", "success", "blocked"),
        ("{default: preApproved, tools: {run_custom_tool: ask}}", "success", "denied"),
        ("{tools: {say: preApproved}}", "success", "denied"),
        ("{tools: {run_custom_tool: preApproved}}", "denied", "denied"),
        ("{tools: {run_custom_tool: preApproved, say: preApproved}}", "success", "success"),
        ("{default: blocked}", "blocked", "blocked"),
    ],
)
def test_the_door_is_as_strict_as_what_is_behind_it(
    project: Project, write_tool: WriteTool, policy: str, direct: str, door: str
) -> None:
    section(project, f"{{approval: {policy}}}")
    write_tool("say", "echo 1")
    seen = project.run(calls(call("say"), through("say")), "done", answers=[False, False])
    assert seen.statuses == [direct, door]


def test_the_door_leads_only_to_what_the_worker_lists(project: Project, write_tool: WriteTool) -> None:
    section(project, "{tools: [run_custom_tool, listed], approval: {default: preApproved}}")
    write_tool("listed", "echo 1")
    write_tool("unlisted", "echo 1")
    made = [through("listed"), through("unlisted"), call("unlisted"), through("run_custom_tool"), through("lsted")]
    seen = project.run(calls(*made), "done")
    assert seen.statuses == ["success", "error", "not_found", "error", "error"]
    assert "did you mean 'listed'?" in (seen.outcomes[-1].error or "")


def test_a_path_through_the_door_is_approved_for_one_call(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    write_tool("show", 'cat "${1#--file=}"', "parameters: [{name: file, type: path}]")
    project.write("a.txt", "a")
    made = calls(through("show", file="a.txt"))
    seen = project.run(made, made, "done", answers=[ALWAYS, ALWAYS])
    assert len(seen.asked) == 2


def test_nobody_is_asked_about_a_path_outside_the_zones(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    write_tool("show", "echo 1", "parameters: [{name: file, type: path}]")
    seen = project.run(calls(call("show", file="/etc/passwd"), through("show", file="/etc/passwd")), "done", answers=[])
    assert seen.statuses == ["error", "error"]
    assert seen.asked == []
