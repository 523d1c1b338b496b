"""Consent at the gate: memory, previews, and changes during a question.

Covers forge_cli.engine.gate.resumed, forge_cli.engine.gate.consent, forge_cli.engine.gate.requesting,
forge_cli.engine.gate.toolbox.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision, ApprovalRequest, Preview, ToolContext, ToolError
from forge_cli.core.approval import THIS_CALL
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, ToolResult, ToolStarted
from forge_cli.core.results import VALUE_LIMIT, Diff, Text
from forge_cli.core.source import Source
from forge_cli.core.text import cut
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.policy import Policy
from forge_cli.errors import Stale
from forge_cli.testing import Project, call, calls
from tests.engine.conftest import OpenGate, Recorded

pytestmark = pytest.mark.anyio

SESSION = ApprovalDecision(True, remember="session")
FILES = "name: w\ntoolsets: {filesystem: {}}\n"
PATHS = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "format": "path", "x-forge-access": "read"},
        "mode": {"type": "string", "default": "plain"},
    },
}


# --- memory: a yes for the session covers identical calls, and nothing else


async def test_identical_call_is_approved_by_memory(gate: OpenGate) -> None:
    act = Recorded()
    opened = gate(act.tool, answers=[SESSION])
    await opened("act", text="a")
    opened.events.clear()
    await opened("act", text="a")
    assert opened.happened == [
        ToolStarted("c2", "act", {"text": "a"}),
        ApprovalDecided(
            "c2",
            verdict="ask",
            approved=True,
            by="memory",
            rule=None,
            where=None,
            reason="neither the tool nor the worker says anything, so it asks; approved earlier in this session",
            cached=True,
            grant=THIS_CALL,
        ),
        ToolResult("c2", "act", "success", Text("done"), 0),
    ]
    assert len(opened.asked) == 1
    assert act.executed == [{"text": "a"}] * 2


async def test_yes_without_remembering_asks_again(gate: OpenGate) -> None:
    opened = gate(Recorded().tool, answers=[True, True])
    await opened("act", text="a")
    await opened("act", text="a")
    assert len(opened.asked) == 2


async def test_other_args_ask_again(gate: OpenGate) -> None:
    act = Recorded()
    opened = gate(act.tool, answers=[SESSION, False, False])
    await opened("act", text="ls")
    assert (await opened("act", text="rm")).status == "denied"
    assert (await opened("act")).status == "denied"
    assert act.executed == [{"text": "ls"}]


async def test_order_and_defaults_of_args_make_no_difference(gate: OpenGate) -> None:
    opened = gate(Recorded(input_schema=PATHS).tool, answers=[SESSION])
    await opened("act", path="a", mode="plain")
    assert (await opened("act", mode="plain", path="a")).ok
    assert (await opened("act", path="a")).ok
    assert len(opened.asked) == 1


async def test_link_with_another_target_is_another_call(gate: OpenGate, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    opened = gate(Recorded(input_schema=PATHS).tool, answers=[SESSION, False])
    assert (await opened("act", path="link")).ok
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("b")
    assert not (await opened("act", path="link")).ok


async def test_denial_is_not_remembered(gate: OpenGate) -> None:
    never = ApprovalDecision(False, remember="session")
    opened = gate(Recorded().tool, answers=[never, never, True])
    statuses = [(await opened("act", text="a")).status for _ in range(3)]
    assert statuses == ["denied", "denied", "success"]
    assert len(opened.asked) == 3


async def test_grants_are_not_shared_between_tools(gate: OpenGate) -> None:
    opened = gate(Recorded("act").tool, Recorded("react").tool, answers=[SESSION, False])
    await opened("act", text="a")
    assert not (await opened("react", text="a")).ok


@pytest.mark.parametrize(
    "change",
    [{"digest": "two"}, {"digest": None}, {"source": Source("package", "other 1.0")}],
    ids=str,
)
async def test_changed_tool_loses_its_grants(gate: OpenGate, change: dict[str, Any]) -> None:
    act = Recorded(digest="one", source=Source("local", "tools.py"))
    opened = gate(act.tool, answers=[SESSION, False])
    await opened("act", text="a")
    assert (await opened("act", text="a")).ok
    opened.offers["act"] = Offer(replace(act.tool, **change), "box", Policy())
    assert not (await opened("act", text="a")).ok
    assert len(opened.asked) == 2


async def test_new_session_has_no_grants(gate: OpenGate) -> None:
    act = Recorded()
    await gate(act.tool, answers=[SESSION])("act", text="a")
    assert not (await gate(act.tool, answers=[False])("act", text="a")).ok


def test_consent_to_delete_a_link_does_not_cover_its_target(project: Project) -> None:
    project.write("worker.yaml", FILES)
    project.write("precious.txt", "precious")
    (project.folder / "link").symlink_to("precious.txt")
    turn = calls(call("delete_file", path="link"), call("delete_file", path="precious.txt"))
    seen = project.run(turn, "done", answers=[SESSION, False])
    assert seen.statuses == ["success", "denied"]
    assert [request.preview for request in seen.asked] == [
        Text("deletes the link link"),
        Text("deletes the file precious.txt (8 bytes)"),
    ]
    assert project.read("precious.txt") == "precious"
    assert not (project.folder / "link").is_symlink()


# --- previews: what a call would do, and never a yes


async def test_preview_is_shown_and_its_stamp_reaches_the_tool(gate: OpenGate) -> None:
    stamps: list[str | None] = []

    async def preview(args: dict[str, Any], context: ToolContext) -> Preview:
        return Preview(Text(f"would do {args['text']}"), "stamp-1")

    async def execute(args: dict[str, Any], context: ToolContext) -> None:
        stamps.append(context.stamp)

    tool = replace(Recorded(preview=preview).tool, execute=execute)
    opened = gate(tool, answers=[SESSION])
    await opened("act", text="it")
    assert opened.asked[0].preview == Text("would do it")
    await opened("act", text="it")
    assert stamps == ["stamp-1", None]


async def test_preview_is_not_computed_if_nobody_is_asked(gate: OpenGate) -> None:
    previewed: list[Any] = []

    async def preview(args: dict[str, Any], context: ToolContext) -> Preview:
        previewed.append(args)
        return Preview(Text("a look"))

    for mode in ("approve_all", "auto_deny"):
        await gate(Recorded(preview=preview).tool, mode=mode)("act", text="it")
    await gate(Recorded(preview=preview, needs_approval=False).tool, answers=[])("act", text="it")
    assert previewed == []
    await gate(Recorded(preview=preview).tool, answers=[True])("act", text="it")
    assert len(previewed) == 1


async def _crash(args: Any, context: ToolContext) -> Preview:
    raise RuntimeError("no idea")


async def _leave(args: Any, context: ToolContext) -> Preview:
    raise SystemExit(1)


async def _nothing(args: Any, context: ToolContext) -> Any:
    return None


@pytest.mark.parametrize(
    ("preview", "shown"),
    [
        (_crash, "no preview: RuntimeError: no idea"),
        (_leave, "no preview: SystemExit: 1"),
        (_nothing, "no preview: AttributeError"),
    ],
)
@pytest.mark.parametrize("answer", [True, False])
async def test_failed_preview_is_not_a_yes(
    gate: OpenGate, preview: Any, shown: str, answer: bool
) -> None:
    act = Recorded(preview=preview)
    opened = gate(act.tool, answers=[answer])
    await opened("act")
    shown_instead = opened.asked[0].preview
    assert isinstance(shown_instead, Text)
    assert shown_instead.content.startswith(shown)
    assert len(act.executed) == int(answer)


async def test_preview_that_refuses_ends_the_call(gate: OpenGate) -> None:
    async def preview(args: Any, context: ToolContext) -> Preview:
        raise ToolError("there is nothing to do")

    act = Recorded(preview=preview)
    opened = gate(act.tool, answers=[])
    await opened("act")
    sentence = "there is nothing to do"
    assert opened.happened == [
        ToolStarted("c1", "act", {}),
        ToolResult("c1", "act", "error", Text(sentence), 0, sentence),
    ]
    assert act.executed == opened.asked == []


async def test_preview_is_bounded_and_may_be_any_value(gate: OpenGate) -> None:
    huge = "x" * (2 * VALUE_LIMIT)

    async def preview(args: Any, context: ToolContext) -> Any:
        return Preview(huge)  # type: ignore[arg-type]

    opened = gate(Recorded(preview=preview).tool, answers=[False])
    await opened("act")
    assert opened.asked[0].preview == Text(cut(huge, VALUE_LIMIT))


# --- stale: what was shown is no longer what the call would touch


def test_file_that_changes_during_the_prompt_asks_again(project: Project) -> None:
    project.write("worker.yaml", FILES)
    file = project.write("a.txt", "first")
    asked: list[ApprovalRequest] = []

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        if len(asked) == 1:
            file.write_text("somebody else was here")
        return ApprovalDecision(True)

    seen = project.run(
        calls(call("write_file", path="a.txt", content="mine")), "done", approval_callback=answer
    )
    assert [request.preview for request in asked] == [
        Diff.of("a.txt", "first", "mine"),
        Diff.of("a.txt", "somebody else was here", "mine"),
    ]
    assert asked[1].reason == (
        "'a.txt' has changed since it was judged; what was approved no longer holds, so it asks again"
    )
    assert [
        event.type for event in seen.events if getattr(event, "tool_call_id", None) == "call_1_1"
    ] == [
        "toolStarted",
        "approvalDecided",
        "approvalDecided",
        "toolResult",
    ]
    assert len(seen.of(ApprovalRequired)) == 2
    assert (seen.statuses, file.read_text()) == (["success"], "mine")


def test_second_answer_counts_after_a_change(project: Project) -> None:
    project.write("worker.yaml", FILES)
    file = project.write("a.txt", "first")
    answers = [True, False]

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        file.write_text("somebody else was here")
        return ApprovalDecision(answers.pop(0))

    seen = project.run(
        calls(call("write_file", path="a.txt", content="mine")), "done", approval_callback=answer
    )
    assert (seen.statuses, file.read_text()) == (["denied"], "somebody else was here")


@pytest.mark.parametrize("zone", ["ask", "preApproved"])
@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("write_file", {"path": "a.txt", "content": "mine"}),
        ("edit_file", {"path": "a.txt", "old": "x", "new": "y"}),
        ("delete_file", {"path": "a.txt"}),
        (
            "apply_patch",
            {"input": "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** End Patch"},
        ),
    ],
)
def test_file_that_keeps_changing_is_an_error(
    project: Project, tool: str, args: dict[str, Any], zone: str
) -> None:
    """Also if its zone allows the change, and only the worker asks."""
    zones = f"[{{name: w, path: ., mode: rw, approval: {{write: {zone}, delete: {zone}}}}}]"
    asks = f"{{filesystem: {{approval: {{tools: {{{tool}: ask}}}}}}}}"
    project.write("worker.yaml", f"name: w\nsandbox: {{zones: {zones}}}\ntoolsets: {asks}\n")
    file = project.write("a.txt", "x\n0\n")
    asked: list[ApprovalRequest] = []

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        file.write_text(f"x\n{len(asked)}\n")
        return ApprovalDecision(True)

    seen = project.run(calls(call(tool, **args)), "done", approval_callback=answer)
    assert (seen.statuses, len(asked), file.read_text()) == (["error"], 3, "x\n3\n")
    assert seen.outcomes[0].error == f"{tool}: what it works on keeps changing; try again later"


@pytest.mark.parametrize(
    ("tool", "args"), [("read_file", {}), ("write_file", {"content": "mine"}), ("delete_file", {})]
)
def test_path_redirected_after_the_prompt_is_not_followed(
    project: Project, tool: str, args: dict[str, Any]
) -> None:
    project.write("worker.yaml", FILES)
    for folder in ("one", "two"):
        project.write(f"{folder}/.env", "the same in both")
    link = project.folder / "link"
    link.symlink_to("one")

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        other = "two" if link.readlink().name == "one" else "one"
        link.unlink()
        link.symlink_to(other)
        return ApprovalDecision(True)

    seen = project.run(
        calls(call(tool, path="link/.env", **args)), "done", approval_callback=answer
    )
    assert seen.statuses == ["error"]
    assert seen.outcomes[0].error == f"{tool}: what it works on keeps changing; try again later"
    assert (project.read("one/.env"), project.read("two/.env")) == (
        "the same in both",
        "the same in both",
    )


def test_path_redirected_after_the_prompt_asks_for_its_new_target(
    project: Project,
) -> None:
    project.write("worker.yaml", FILES)
    for folder in ("one", "two"):
        project.write(f"{folder}/.env", folder)
    link = project.folder / "link"
    link.symlink_to("one")
    asked: list[ApprovalRequest] = []

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        link.unlink()
        link.symlink_to("two")
        return ApprovalDecision(True)

    seen = project.run(calls(call("read_file", path="link/.env")), "done", approval_callback=answer)
    assert (seen.statuses, seen.outcomes[0].value.text()) == (
        ["success"],
        "[link/.env, lines 1-1 of 1]\n1: two",
    )
    assert len({request.fingerprint for request in asked}) == 2
    assert (
        "led to '/workspace/one/.env' when it was judged, and to '/workspace/two/.env' now"
        in asked[1].reason
    )


async def test_pre_approved_call_that_becomes_stale_asks(gate: OpenGate) -> None:
    tries: list[str | None] = []

    async def execute(args: Any, context: ToolContext) -> str:
        tries.append(context.stamp)
        if len(tries) == 1:
            raise Stale("the ground moved")
        return "done"

    opened = gate(replace(Recorded(needs_approval=False).tool, execute=execute), answers=[True])
    assert (await opened("act")).ok
    assert [event.verdict for event in opened.events if isinstance(event, ApprovalDecided)] == [
        "preApproved",
        "ask",
    ]
    assert len(tries) == 2


async def test_time_at_the_prompt_does_not_count_for_the_timeout(gate: OpenGate) -> None:
    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        await anyio.sleep(1)
        return ApprovalDecision(True)

    opened = gate(Recorded().tool, answers=answer)
    assert (await opened("act", text="a")).duration_ms < 900
