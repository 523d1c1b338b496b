"""Approvals of a single call: if the arguments do not determine the effect, every call asks."""

from typing import Any

import pytest

from forge_cli import ApprovalDecision, Preview, Text, ToolContext
from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.events import ApprovalDecided
from forge_cli.testing import Project, Seen, call, calls
from tests.engine.conftest import OpenGate, Recorded

SESSION = ApprovalDecision(True, remember="session")

TOOLS = '''
from pathlib import Path

from forge_cli import Preview, Text, Toolset, tool


class Store(Toolset):
    name = "store"

    @tool(preview="_staged")
    def commit(self, message: str) -> str:
        """Commit whatever is staged."""
        return f"committed {Path('staged').read_text()}"

    async def _staged(self, args, context) -> Preview:
        return Preview(Text(f"staged: {Path('staged').read_text()}"), once=True)

    @tool(preview="_named", needs_approval="_asks")
    def tag(self, name: str) -> str:
        """Tag what is committed."""
        return f"tagged {name}"

    async def _named(self, args, context) -> Preview:
        return Preview(Text(f"a tag {args['name']}"))

    def _asks(self, args) -> bool:
        return args["name"] != "draft"

    @tool(needs_approval=False)
    def stage(self, what: str) -> str:
        """Stage something."""
        Path("staged").write_text(what)
        return "staged"
'''


@pytest.fixture
def store(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(project.folder)
    project.write("staged", "nothing")
    project.write("tools.py", TOOLS)
    project.write(
        "worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [Store]}}\n"
    )
    return project


def shown(seen: Seen) -> list[tuple[str, str]]:
    """The requests: the tool, and the shown text."""
    return [
        (request.tool_name, request.preview.text()) for request in seen.asked if request.preview
    ]


def test_once_only_call_asks_in_every_turn(store: Project) -> None:
    commit = call("commit", message="more")
    seen = store.run(
        calls(call("stage", what="a")),
        calls(commit),
        calls(call("stage", what="b")),
        calls(commit),
        "done",
        answers=[SESSION, SESSION],
    )
    assert shown(seen) == [("commit", "staged: a"), ("commit", "staged: b")]
    assert seen.statuses == ["success"] * 4
    assert [outcome.value.text() for outcome in seen.outcomes if outcome.tool_name == "commit"] == [
        "committed a",
        "committed b",
    ]
    assert not any(each.cached for each in seen.of(ApprovalDecided))


def test_once_only_call_asks_twice_in_one_turn(store: Project) -> None:
    commit, stage, tag = (
        call("commit", message="more"),
        call("stage", what="b"),
        call("tag", name="v1"),
    )
    seen = store.run(
        calls(commit, stage, commit, tag, tag), "done", answers=[SESSION, SESSION, SESSION]
    )
    assert shown(seen) == [
        ("commit", "staged: nothing"),
        ("commit", "staged: b"),
        ("tag", "a tag v1"),
    ]
    assert [
        (each.decision.approved, each.decision.remember) for each in seen.of(ApprovalResponse)
    ] == [(True, "session")] * 3
    assert seen.statuses == ["success"] * 5


def test_denial_of_a_once_only_call_counts(store: Project) -> None:
    commit = call("commit", message="more")
    seen = store.run(
        calls(commit, commit),
        "done",
        answers=[SESSION, ApprovalDecision(False, note="not that one")],
    )
    assert seen.statuses == ["success", "denied"]
    assert seen.outcomes[1].error == "commit was not called; the user said no: not that one"


def test_approval_method_named_by_a_tool_is_used(store: Project) -> None:
    seen = store.run(
        calls(call("tag", name="draft"), call("tag", name="v1")), "done", answers=[True]
    )
    assert shown(seen) == [("tag", "a tag v1")]
    assert [each.by for each in seen.of(ApprovalDecided)] == ["tool", "user"]


@pytest.mark.anyio
async def test_call_without_a_preview_is_approved_only_once(gate: OpenGate) -> None:
    async def preview(args: Any, context: ToolContext) -> Preview:
        raise RuntimeError("no such branch")

    opened = gate(Recorded(preview=preview).tool, answers=[SESSION, SESSION])
    await opened("act")
    await opened("act")
    assert [request.preview for request in opened.asked] == [
        Text("no preview: RuntimeError: no such branch")
    ] * 2
