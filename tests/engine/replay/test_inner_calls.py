"""Sessions in which tools call tools: resumed after a cut in the middle of an inner call, and repeated."""

from typing import Any

import pytest

from forge_cli.engine.replay.replay import Tools
from forge_cli.events import OnAsk
from forge_cli.record.calls import past_calls
from forge_cli.record.line import Line
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, call, calls

from .test_replay import drift, recording, replay, rewrite

WORKER = """
name: clerk
instructions: You file things.
toolsets:
  custom: {module: ./tools.py, tools: [file, look_up, note, read]}
"""
TOOLS = '''
from forge_cli import Effect, ToolContext, tool


@tool(effects={Effect.WRITE}, needs_approval=False)
async def file(text: str, context: ToolContext) -> str:
    """File a text."""
    done = await context.call("note", {"text": text})
    return f"{done.status}: {done.text()}"


@tool(read_only=True, needs_approval=False)
async def look_up(text: str, context: ToolContext) -> str:
    """Look a text up."""
    return (await context.call("read", {"text": text})).text()


@tool(effects={Effect.WRITE}, needs_approval=False)
def note(text: str, context: ToolContext) -> str:
    """Note a text."""
    with open(context.workspace / "noted.txt", "a") as file:
        file.write(f"{text}\\n")
    return f"noted {text}"


@tool(read_only=True, needs_approval=False)
def read(text: str) -> str:
    """Read a text."""
    return f"read {text}"
'''


@pytest.fixture
def clerk(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    return project


def resume(
    project: Project, lines: list[Line], *turns: Any, **options: Any
) -> list[tuple[str, str, str | None]]:
    seen = project.run(*turns, task="", resume=Resumed(read_past(lines), lines[-1]), **options)
    return [(each.tool_call_id, each.status, each.parent_call_id) for each in seen.outcomes]


def test_interrupted_inner_call_has_a_result_and_may_have_run(clerk: Project) -> None:
    lines = clerk.run(calls(call("file", text="a")), "Done.").record
    kinds = [line.type for line in lines]
    cut = lines[: len(kinds) - 1 - kinds[::-1].index("approvalDecided") + 1]

    past = read_past(cut)
    assert past.in_flight == {'["file", {"text": "a"}]', '["note", {"text": "a"}]'}
    assert [each.id for each in past.cut_off] == ["call_1_1.1", "call_1_1"]

    again = calls(call("note", text="a"), call("note", text="b"))
    assert resume(clerk, cut, calls(call("file", text="a")), again, "Done.") == [
        ("call_1_1.1", "interrupted", "call_1_1"),
        ("call_1_1", "interrupted", None),
        ("call_2_1", "denied", None),
        ("call_2_2", "success", None),
    ]


def test_completed_inner_call_is_not_interrupted(clerk: Project) -> None:
    lines = clerk.run(calls(call("file", text="a")), "Done.").record
    first = next(at for at, line in enumerate(lines) if line.type == "toolResult")

    past = read_past(lines[: first + 1])

    assert past.in_flight == {'["file", {"text": "a"}]'}
    assert [each.id for each in past.cut_off] == ["call_1_1"]


def test_inner_call_is_never_parked(clerk: Project) -> None:
    rewrite(
        clerk,
        "tools.py",
        "@tool(effects={Effect.WRITE}, needs_approval=False)\ndef note",
        "@tool()\ndef note",
    )

    seen = clerk.run(calls(call("file", text="a")), "Done.", on_ask=OnAsk.PARK)

    assert (seen.result.status, [denial["by"] for denial in seen.result.denials]) == (
        "completed",
        ["headless"],
    )
    assert [(each.tool_name, each.status) for each in seen.outcomes] == [
        ("note", "denied"),
        ("file", "success"),
    ]


def test_refused_inner_call_with_on_ask_fail_ends_the_work(clerk: Project) -> None:
    rewrite(
        clerk,
        "tools.py",
        "@tool(effects={Effect.WRITE}, needs_approval=False)\ndef note",
        "@tool()\ndef note",
    )

    seen = clerk.run(calls(call("file", text="a")), "Done.", on_ask=OnAsk.FAIL)

    assert (seen.result.status, seen.result.exit_code) == ("denied", 4)


@pytest.mark.parametrize(
    ("tools", "ran", "taken"), [(Tools.READ_ONLY, 2, 1), (Tools.RECORDED, 0, 2), (Tools.LIVE, 4, 0)]
)
def test_call_from_the_record_makes_no_inner_call(
    clerk: Project, tools: Tools, ran: int, taken: int
) -> None:
    seen = clerk.run(calls(call("file", text="a")), calls(call("look_up", text="b")), "Done.")
    assert clerk.read("noted.txt") == "a\n"

    course = replay(clerk, recording(seen), tools)

    assert (course.ran, course.taken, course.drift) == (ran, taken, None)
    assert clerk.read("noted.txt") == ("a\na\n" if tools is Tools.LIVE else "a\n")


def test_inner_call_missing_from_the_record_is_drift_and_is_not_made(
    clerk: Project,
) -> None:
    record = recording(clerk.run(calls(call("look_up", text="b")), "Done."))
    rewrite(
        clerk,
        "tools.py",
        'context.call("read", {"text": text})',
        'context.call("note", {"text": text})',
    )

    found = drift(clerk, record)

    sentence = 'a tool calls note {"text": "b"}, which is not in the recording of this turn'
    assert (found.kind, sentence in str(found)) == ("turns", True)
    assert not (clerk.folder / "noted.txt").exists()


def test_past_calls_name_their_parent(clerk: Project) -> None:
    lines = clerk.run(calls(call("file", text="a")), "Done.").record
    found = [(past.call.name, past.by_model, past.call.parent) for past in past_calls(lines)]
    assert found == [("file", True, None), ("note", False, "call_1_1")]
