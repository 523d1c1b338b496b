"""Programs that call tools: by ``forge tools call``, through pipes that reach into their sandbox.

Covers forge_cli.toolsets.executables.run, forge_cli.cli.tools.call, forge_cli.sandbox.processes.requests,
forge_cli.sandbox.processes.command.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import forge_cli
from forge_cli.core.approval import ApprovalDecision
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import ApprovalDecided, ToolResult
from forge_cli.core.results import Custom
from forge_cli.sandbox.processes.requests import MAX_REQUEST, send_request
from forge_cli.testing import Project, Seen, call, calls

WriteTool = Callable[..., Path]
ROOT = Path(forge_cli.__file__).parent.parent
SEEN = sorted({str(ROOT), sys.prefix, sys.base_prefix})
FORGE = f"{sys.executable} -m forge_cli tools call"
TOOLS = '''
from forge_cli import tool


@tool(needs_approval=False, read_only=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(needs_approval=True)
def pay(amount: float) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(needs_approval=False)
def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


@tool(needs_approval=False)
def large() -> str:
    """Say much."""
    return "x" * 200_000
'''


@pytest.fixture(params=["auto", pytest.param("off", marks=pytest.mark.long)])
def host(project: Project, request: pytest.FixtureRequest) -> Project:
    """A worker whose programs may call tools, with and without a sandbox around them."""
    project.write("tools.py", TOOLS)
    project.write(
        "worker.yaml",
        "name: host\n"
        f"sandbox: {{isolation: {request.param}, read: {json.dumps(SEEN)}}}\n"
        "toolsets:\n"
        "  custom: {module: ./tools.py, tools: [add, pay, fail, large]}\n"
        "  executables: {approval: {default: preApproved}, calls: [add, pay, fail, gone, large], env: [PYTHONPATH]}\n",
    )
    return project


def program(write_tool: WriteTool, *lines: str) -> None:
    write_tool(
        "outer", "\n".join(["export PYTHONDONTWRITEBYTECODE=1", *lines]) + "\n", "timeout: 60"
    )


def run(host: Project, **options: object) -> tuple[Seen, dict[str, object]]:
    seen = host.run(calls(call("outer")), "done", timeout=60, **options)
    value = seen.outcomes[-1].value
    assert isinstance(value, Custom), value
    return seen, dict(value.data)


def test_program_calls_a_tool_and_prints_its_result(host: Project, write_tool: WriteTool) -> None:
    program(
        write_tool,
        f"echo sum: $({FORGE} add a=1 b=41)",
        f"{FORGE} add --a 1 --b 2 --json",
        "echo end",
    )
    seen, data = run(host)
    assert (data["stdout"], data["stderr"], data["exitCode"]) == (
        'sum: 42\n{"kind": "json", "data": 3}\nend\n',
        "",
        0,
    )
    inner = [(each.tool_name, each.status, each.parent_call_id) for each in seen.outcomes]
    assert inner == [
        ("add", "success", "call_1_1"),
        ("add", "success", "call_1_1"),
        ("outer", "success", None),
    ]
    assert [each.caller for each in seen.of(ApprovalDecided)] == [None, "tool:outer", "tool:outer"]


@pytest.mark.long
@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        ("fail", 1, "forge: ValueError: no luck"),
        ("add a=1 b=x", 2, "forge: invalid input for add: b: "),
        ("add 7", 2, "forge: '7' is neither KEY=VALUE nor --KEY VALUE"),
        ("gone", 2, "forge: there is no tool 'gone'"),
        ("add a=1 b=2 -y", 2, "forge: -y has no effect inside a tool's program"),
        ("pay amount=5", 4, "forge: pay was not called; the user said no: too much"),
        (
            "create_custom_tool",
            4,
            "forge: outer may not call create_custom_tool: toolsets.executables.calls",
        ),
    ],
)
def test_each_failure_has_its_exit_code(
    host: Project, write_tool: WriteTool, argv: str, code: int, sentence: str
) -> None:
    program(write_tool, f"{FORGE} {argv}", "echo code: $?")
    _, data = run(host, answers=[ApprovalDecision(False, note="too much")])
    assert data["stdout"] == f"code: {code}\n"
    assert str(data["stderr"]).startswith(sentence)


@pytest.mark.long
def test_question_stops_the_timeout_of_the_program(host: Project, write_tool: WriteTool) -> None:
    program(write_tool, f"{FORGE} pay amount=5")
    seen, data = run(host, answers=[True])
    [request] = seen.asked
    assert (request.tool_name, request.caller, data["stdout"]) == (
        "pay",
        "tool:outer",
        "paid 5.0\n",
    )


@pytest.mark.long
def test_python_program_needs_no_inherited_descriptor(host: Project, write_tool: WriteTool) -> None:
    source = (
        "import subprocess, sys\n"
        f"argv = [{sys.executable!r}, '-m', 'forge_cli', 'tools', 'call']\n"
        "print(subprocess.run([*argv, 'add', 'a=2', 'b=3'], capture_output=True, text=True).stdout)\n"
        "print(len(subprocess.run([*argv, 'large'], capture_output=True, text=True).stdout))\n"
    )
    write_tool("outer", source, "timeout: 60", suffix=".py")
    _, data = run(host)
    assert data["stdout"] == "5\n\n200001\n"


@pytest.mark.long
def test_concurrent_calls_get_their_own_answers(host: Project, write_tool: WriteTool) -> None:
    write_tool(
        "outer",
        "export PYTHONDONTWRITEBYTECODE=1; d=$(mktemp -d)\n"
        f"for n in 1 2 3; do {FORGE} add a=$n b=$n > $d/$n & done; wait; cat $d/1 $d/2 $d/3\n",
        "timeout: 60",
    )
    _, data = run(host)
    assert data["stdout"] == "2\n4\n6\n"


def test_program_without_declared_calls_has_no_channel(
    host: Project, write_tool: WriteTool
) -> None:
    text = host.read("worker.yaml")
    host.write("worker.yaml", text.replace("calls: [add, pay, fail, gone, large], ", ""))
    program(write_tool, "echo [$FORGE_CALL]")
    _, data = run(host)
    assert data["stdout"] == "[]\n"


def test_leftover_request_reaches_nobody(host: Project, write_tool: WriteTool) -> None:
    program(write_tool, 'echo "$FORGE_CALL"')
    _, data = run(host)
    folder = Path(str(data["stdout"]).strip())
    assert folder.name.startswith("forge-call-")
    assert not folder.exists()
    with pytest.raises(ForgeError, match="no answer from forge at"):
        send_request(folder, {"tool": "add"})
    with pytest.raises(ForgeError, match="the limit is"):
        send_request(folder, {"tool": "x" * MAX_REQUEST})


@pytest.mark.long
def test_incomplete_line_is_skipped(host: Project, write_tool: WriteTool) -> None:
    program(write_tool, "printf '{\"tool\": ' > $FORGE_CALL/requests", f"{FORGE} add a=1 b=1")
    _, data = run(host)
    assert data["stdout"] == "2\n"


@pytest.mark.long
def test_inner_call_ends_with_its_program(host: Project, write_tool: WriteTool) -> None:
    slow = "import anyio\nfrom forge_cli import tool\n\n\n@tool(needs_approval=False)\nasync def add() -> str:\n"
    host.write(
        "tools.py",
        TOOLS.replace("def add(a: int, b: int) -> int:", "def sum(a: int, b: int) -> int:")
        + slow
        + '    """Wait."""\n    await anyio.sleep_forever()\n    return ""\n',
    )
    program(write_tool, f"timeout 3 {FORGE} add; exit 3")
    seen, data = run(host)
    assert data["exitCode"] == 3
    assert [(each.tool_name, each.status) for each in seen.of(ToolResult)] == [
        ("add", "interrupted"),
        ("outer", "error"),
    ]


def test_channel_variable_is_not_inherited(
    monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    monkeypatch.setenv("FORGE_CALL", "/somewhere")
    project.write(
        "worker.yaml",
        "name: w\ntoolsets:\n  shell: {rules: [{pattern: env, approval: preApproved}]}\n",
    )
    seen = project.run(calls(call("shell", command="env")), "done")
    assert "FORGE_CALL" not in seen.outcomes[0].value.text()
    assert os.environ["FORGE_CALL"] == "/somewhere"
