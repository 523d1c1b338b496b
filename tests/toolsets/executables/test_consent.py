"""Whether a call of a program needs a yes, and how long that yes is good for.

Covers forge_cli.toolsets.executables.toolset.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli import ApprovalDecision
from forge_cli.core.events import ApprovalDecided, StatusEvent
from forge_cli.core.results import Text
from forge_cli.core.wire import JsonObject
from forge_cli.record.line import Line
from forge_cli.testing import Project, call, calls

WriteTool = Callable[..., Path]
ALWAYS = ApprovalDecision(True, remember="session")


def through(name: str, **args: object) -> JsonObject:
    return call("run_custom_tool", tool_name=name, arguments=args)


def section(project: Project, options: str) -> None:
    project.write("worker.yaml", f"name: w\ninstructions: x\ntoolsets:\n  executables: {options}\n")


def test_executable_tool_asks_and_shows_its_command(
    project: Project, write_tool: WriteTool
) -> None:
    section(project, "{}")
    folder = write_tool("say", "echo hi", "version: 2.1.0", "parameters: [{name: word}]")
    seen = project.run(
        calls(call("say", word="x"), through("say", word="x")), "done", answers=[True, False]
    )
    assert seen.statuses == ["success", "denied"]
    assert [request.risk for request in seen.asked] == ["high", "high"]
    shown = Text(f"{folder}/say.sh (version 2.1.0)\n--word=x")
    assert [request.preview for request in seen.asked] == [shown, shown]
    assert [request.runs.folder for request in seen.asked if request.runs] == [
        str(project.folder)
    ] * 2


def test_single_argument_cannot_be_read_as_two(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    write_tool("say", "echo hi", "parameters: [{name: word}]")
    seen = project.run(calls(call("say", word="x\n--force=no\x1b[2J")), "done", answers=[False])
    shown = seen.asked[0].preview
    assert isinstance(shown, Text)
    assert shown.content.splitlines()[1:] == ["--word=x\\n--force=no\\x1b[2J"]


def test_session_grant_ends_with_an_edit(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    folder = write_tool("say", "echo 1")
    both = calls(call("say"), through("say"))
    ended: list[Line] = []

    def edit(line: Line) -> None:
        ended.extend([line] if line.type == "toolResult" else [])
        if len(ended) == 4:
            (folder / "say.sh").write_text("echo 2")

    seen = project.run(both, both, both, "done", answers=[ALWAYS, False, False], sinks=(edit,))
    assert seen.statuses == ["success"] * 4 + ["denied"] * 2
    assert [each.by for each in seen.of(ApprovalDecided)] == [
        "user",
        "memory",
        "memory",
        "memory",
        "user",
        "user",
    ]


@pytest.mark.few(2)
@pytest.mark.parametrize("first", ["direct", "door"])
@pytest.mark.parametrize("prefix", ["", "prefix: my, "])
def test_direct_call_and_proxy_call_are_identical(
    project: Project, write_tool: WriteTool, first: str, prefix: str
) -> None:
    """Either form may be approved for the session, with any time limit of the proxy."""
    section(project, f"{{{prefix}approval: {{}}}}")
    write_tool("say", "echo $1", "parameters: [{name: n, type: integer}, {name: m, default: x}]")
    my = "my_" if prefix else ""
    direct = [call(f"{my}say", n=1), call(f"{my}say", n="1", m="x")]
    doors = [
        call(f"{my}run_custom_tool", tool_name="say", arguments={"n": 1}),
        call(f"{my}run_custom_tool", tool_name="say", arguments={"m": "x", "n": "1"}, timeout=5),
    ]
    made = [*direct, *doors] if first == "direct" else [*doors, *direct]
    other = call(f"{my}run_custom_tool", tool_name="say", arguments={"n": 2})
    seen = project.run(calls(*made, other), "done", answers=[ALWAYS, False])
    assert [each.by for each in seen.of(ApprovalDecided)] == [
        "user",
        "memory",
        "memory",
        "memory",
        "user",
    ]
    assert seen.statuses == ["success"] * 4 + ["denied"]


def test_proxy_may_be_pre_approved_without_a_warning(
    project: Project, write_tool: WriteTool, unconfined: str
) -> None:
    section(project, "{approval: {tools: {run_custom_tool: preApproved, say: preApproved}}}")
    write_tool("say", "echo 1")
    project.home.chmod(0o700)
    seen = project.run(calls(through("say")), "done")
    assert seen.statuses == ["success"]
    assert (
        "".join(
            f"warning: {each.message}\n" for each in seen.of(StatusEvent) if each.level == "warning"
        )
        == unconfined
    )


@pytest.mark.few(3)
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
def test_proxy_is_as_strict_as_the_tool_behind_it(
    project: Project, write_tool: WriteTool, policy: str, direct: str, door: str
) -> None:
    section(project, f"{{approval: {policy}}}")
    write_tool("say", "echo 1")
    seen = project.run(calls(call("say"), through("say")), "done", answers=[False, False])
    assert seen.statuses == [direct, door]


def test_proxy_reaches_only_tools_that_the_worker_lists(
    project: Project, write_tool: WriteTool
) -> None:
    section(project, "{tools: [run_custom_tool, listed], approval: {default: preApproved}}")
    write_tool("listed", "echo 1")
    write_tool("unlisted", "echo 1")
    made = [
        through("listed"),
        through("unlisted"),
        call("unlisted"),
        through("run_custom_tool"),
        through("lsted"),
    ]
    seen = project.run(calls(*made), "done")
    assert seen.statuses == ["success", "error", "not_found", "error", "error"]
    assert "did you mean 'listed'?" in (seen.outcomes[-1].error or "")


def test_approval_is_bound_to_the_target_of_a_path(project: Project, write_tool: WriteTool) -> None:
    section(project, "{}")
    write_tool("show", 'cat "${1#--file=}"', "parameters: [{name: file, type: path}]")
    project.write("a.txt", "a")
    project.write("b.txt", "b")
    link = project.folder / "link"
    link.symlink_to("a.txt")
    ended: list[Line] = []

    def turn(line: Line) -> None:
        ended.extend([line] if line.type == "toolResult" else [])
        if len(ended) == 2:
            link.unlink(missing_ok=True)
            link.symlink_to("b.txt")

    made = calls(through("show", file="link"), call("show", file="/workspace/a.txt"))
    seen = project.run(made, made, "done", answers=[ALWAYS, False], sinks=(turn,))
    assert seen.statuses == ["success", "success", "denied", "success"]


def test_compilation_waits_for_the_approval_of_the_call(
    project: Project, write_tool: WriteTool, go: str
) -> None:
    """Approval of a call includes compilation, and the question says so."""
    section(project, "{}")
    folder = write_tool("hello", 'package main\n\nfunc main() { println("hello") }\n', suffix=".go")
    seen = project.run(calls(call("hello")), "done", answers=[False])
    assert "compiled on first use" in seen.asked[0].preview.text()
    assert seen.statuses == ["denied"]
    assert not (folder / ".build").exists()
    section(project, "{approval: {tools: {hello: preApproved}}}")
    assert project.run(calls(call("hello")), "done", answers=[]).statuses == ["success"]
    assert (folder / ".build").exists()


def test_path_outside_the_zones_is_refused_before_a_verdict(
    project: Project, write_tool: WriteTool
) -> None:
    section(project, "{approval: {default: preApproved}}")
    write_tool("show", "echo 1", "parameters: [{name: file, type: path}]")
    made = call("show", file="/etc/passwd"), through("show", file="/etc/passwd")
    seen = project.run(calls(*made), "done", answers=[])
    assert seen.statuses == ["error", "error"]
    assert seen.of(ApprovalDecided) == []


SAID = """
turns:
  - calls: [{tool: deploy}, {tool: run_custom_tool, input: {tool_name: deploy}}]
  - text: done
"""


@pytest.mark.parametrize(("word", "code"), [("true", 4), ("ask", 4), ("blocked", 4)])
def test_verdict_declared_by_a_program_cannot_be_loosened(
    worker: Project, write_tool: WriteTool, word: str, code: int
) -> None:
    """The worker pre-approves all programs."""
    write_tool("deploy", "echo deployed", f"needsApproval: {word}")
    write_tool("other", "echo other")
    assert worker.forge("tools", "call", "other", "--worker", "worker.yaml").stdout == "other\n"
    done = worker.forge("tools", "call", "deploy", "--worker", "worker.yaml")
    assert (done.returncode, done.stdout) == (code, "")
    approved = worker.forge("tools", "call", "deploy", "--worker", "worker.yaml", "-y")
    assert (approved.returncode, approved.stdout) == (
        (4, "") if word == "blocked" else (0, "deployed\n")
    )


def test_manual_program_cannot_be_called_by_models(worker: Project, write_tool: WriteTool) -> None:
    menu = "manualExecution: {mode: manual, label: Deploy it, category: Operations}"
    write_tool("deploy", "echo deployed > was-there; echo deployed", menu)
    worker.write("script.yaml", SAID)
    done = worker.forge(
        "run", "worker.yaml", "go", "-m", "script:script.yaml", "-y", "--trace", "normal"
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "2 refused" in done.stderr
    assert not (worker.folder / "was-there").exists()
    assert worker.forge("tools", "call", "deploy", "--worker", "worker.yaml").stdout == "deployed\n"
    listed = worker.forge("tools", "show", "deploy", "--worker", "worker.yaml").stdout
    assert "Deploy it" in listed
    assert "Operations" in listed
