"""``on_error: stop``: the first call that fails ends the work, and the turn's other calls are interrupted.

Covers forge_cli.engine.turns.calls, forge_cli.engine.turns.loop.
"""

from typing import Any

import anyio
import pytest

from forge_cli import Approval, Effect, Tool, ToolContext
from forge_cli.core.errors import ExitCode, ToolError
from forge_cli.core.phrases import SKIPPED_AFTER_FAILURE
from forge_cli.engine.turns.calls import MAX_CALLS, Turn
from forge_cli.events import ApprovalMode, ToolCall
from forge_cli.testing import Project, call, calls
from tests.engine.conftest import OpenGate

WORKER = """
name: careful
on_error: {policy}
toolsets:
  custom:
    module: ./tools.py
    tools: [note, boom, slow, forbidden, secret]
    approval: {{default: preApproved, tools: {{forbidden: blocked, secret: ask}}}}
  workers: {{allowed: [child], approval: {{default: preApproved}}}}
"""
TOOLS = '''
import asyncio

from forge_cli import ToolContext, ToolError, tool

def note(text: str, context: ToolContext) -> str:
    """Note something."""
    with open(context.workspace / "notes", "a") as file:
        file.write(text)
    return text

def boom() -> str:
    """Fail."""
    raise ToolError("it broke")

@tool(timeout=0.05)
async def slow() -> str:
    """Take long."""
    await asyncio.sleep(60)
    return "late"

def forbidden() -> str:
    """Never called."""
    return "no"

def secret() -> str:
    """Asks."""
    return "no"
'''
CHILD = "name: child\nmodel: script:child.yaml\ntoolsets: {custom: {module: ./tools.py, tools: [boom]}}\n"


@pytest.fixture
def careful(project: Project) -> Project:
    project.write("worker.yaml", WORKER.format(policy="stop"))
    project.write("tools.py", TOOLS)
    project.write("child.yaml", CHILD)
    return project


@pytest.mark.parametrize(
    ("made", "status", "why"),
    [
        (call("boom"), "error", "boom failed (error), and on_error is 'stop': it broke"),
        (
            call("slow"),
            "timeout",
            "slow failed (timeout), and on_error is 'stop': slow was stopped after 0.05 seconds",
        ),
        (call("note", words=1), "invalid", "note failed (invalid), and on_error is 'stop': "),
        (call("nobody"), "not_found", "nobody failed (not_found), and on_error is 'stop': "),
    ],
)
def test_on_error_stop_ends_the_work_at_the_first_failure(
    careful: Project, made: dict[str, Any], status: str, why: str
) -> None:
    seen = careful.run(calls(call("note", text="a"), made, call("note", text="b")), "never said")
    assert seen.statuses == ["success", status, "interrupted"]
    assert seen.outcomes[2].error == SKIPPED_AFTER_FAILURE
    assert (seen.result.status, seen.result.exit_code, seen.result.turns) == (
        "failed",
        ExitCode.FAILED,
        1,
    )
    assert seen.result.error is not None
    assert seen.result.error.startswith(why)
    assert careful.read("notes") == "a"
    assert seen.types[-1] == "sessionEnd"


def test_on_error_default_reports_the_failure_to_the_model(careful: Project) -> None:
    for line in ("on_error: continue", ""):
        careful.write("worker.yaml", WORKER.format(policy="stop").replace("on_error: stop", line))
        seen = careful.run(calls(call("boom"), call("note", text="b")), "done")
        assert (seen.statuses, seen.result.status) == (["error", "success"], "completed")


def test_denied_or_blocked_call_is_not_a_failure(careful: Project) -> None:
    made = calls(call("forbidden"), call("secret"), call("note", text="b"))
    seen = careful.run(made, "done", answers=[False])
    assert (seen.statuses, seen.result.status) == (["blocked", "denied", "success"], "completed")


def test_failed_child_worker_is_a_failed_call_of_its_parent(careful: Project) -> None:
    careful.write(
        "child-script.yaml", "turns: [{calls: [{tool: boom, input: {}}]}, {text: done}]\n"
    )
    careful.write(
        "child.yaml", f"on_error: stop\n{CHILD.replace('child.yaml', 'child-script.yaml')}"
    )
    seen = careful.run(
        calls(call("child", input="go")), "done", approval_mode=ApprovalMode.APPROVE_ALL
    )
    assert seen.statuses == ["error", "error"]
    assert (seen.result.status, "child failed (error)" in (seen.result.error or "")) == (
        "failed",
        True,
    )


def test_unknown_value_of_on_error_is_refused(careful: Project) -> None:
    careful.write("worker.yaml", WORKER.format(policy="halt"))
    done = careful.forge("worker", "check", "worker.yaml")
    assert done.returncode == 3
    assert "worker.yaml:3:11: on_error: must be 'continue' or 'stop', not 'halt'" in done.stderr


def test_on_error_has_its_exit_code_and_message(careful: Project) -> None:
    careful.write("script.yaml", "turns: [{calls: [{tool: boom, input: {}}]}, {text: done}]\n")
    done = careful.forge("run", "worker.yaml", "go", "-m", "script:script.yaml", "-p")
    assert (done.returncode, done.stdout.strip()) == (1, "")
    assert "boom failed (error), and on_error is 'stop': it broke" in done.stderr


NUMBERED = {"type": "object", "properties": {"n": {"type": "integer"}}}


@pytest.mark.anyio
async def test_parallel_calls_are_stopped(gate: OpenGate) -> None:
    waiting = anyio.Event()

    async def read(args: dict[str, Any], context: ToolContext) -> str:
        if args["n"] == 0:
            return "fine"
        if args["n"] == 1:
            await waiting.wait()
            raise ToolError("it broke")
        waiting.set()
        await anyio.sleep_forever()
        return "never"

    tool = Tool(
        name="read",
        description="Read.",
        input_schema=NUMBERED,
        execute=read,
        needs_approval=Approval.PRE_APPROVED,
        effects=frozenset({Effect.READ}),
    )
    made = [ToolCall(f"c{n}", "read", {"n": n}) for n in range(20)]
    turn = Turn(gate(tool).guard, stop_on_refusal=False, stop_on_failure=True)
    with anyio.fail_after(60):
        await turn.take(made)
    assert [outcome.call.id for outcome in turn.outcomes] == [each.id for each in made]
    assert [outcome.status for outcome in turn.outcomes] == [
        "success",
        "error",
        *["interrupted"] * 18,
    ]
    assert turn.failed is turn.outcomes[1]


@pytest.mark.anyio
async def test_calls_beyond_the_maximum_are_not_failures(gate: OpenGate) -> None:
    async def read(args: dict[str, Any], context: ToolContext) -> str:
        return "fine"

    tool = Tool(
        name="read",
        description="Read.",
        input_schema=NUMBERED,
        execute=read,
        needs_approval=Approval.PRE_APPROVED,
    )
    turn = Turn(gate(tool).guard, stop_on_refusal=False, stop_on_failure=True)
    await turn.take([ToolCall(f"c{n}", "read", {"n": n}) for n in range(MAX_CALLS + 1)])
    assert (turn.outcomes[-1].status, turn.failed) == ("error", None)
