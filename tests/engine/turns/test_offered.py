"""Many tools: definitions that would fill the window are loaded on demand, and the beginning of the prompt stays.

Covers forge_cli.engine.turns.offered, forge_cli.engine.turns.find_tools.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision, Tool, Toolset, Worker, WorkerRuntime
from forge_cli.core.events import StatusEvent, TurnStart
from forge_cli.engine.gate.offer import FIND_TOOLS
from forge_cli.engine.turns.find_tools import MAX_FOUND
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, Seen, call, calls, scripted_model
from tests.support.interpreter import PYTHON

SERVER = str(Path(__file__).parents[2] / "toolsets" / "mcp" / "server.py")
SUBJECTS = ("invoice", "customer", "parcel", "meeting")
ACTIONS = {"create": "Create", "delete": "Remove for ever", "list": "List every"}
TOOLS = [f"{action}_{subject}" for subject in SUBJECTS for action in ACTIONS]


@pytest.fixture
def many(project: Project) -> Project:
    functions = [
        f'def {action}_{subject}(name: str) -> str:\n    """{words} {subject}."""\n    return "{subject} " + name\n'
        for subject in SUBJECTS
        for action, words in ACTIONS.items()
    ]
    project.write("tools.py", "\n\n".join(functions))
    write_worker(project)
    return project


def write_worker(project: Project, share: str = "tool_share: 0.001", more: str = "") -> None:
    project.write(
        "worker.yaml",
        f"name: w\n{share}\ntoolsets:\n  plan: {{}}\n{more}"
        f"  custom: {{module: ./tools.py, tools: [{', '.join(TOOLS)}], approval: {{default: preApproved}}}}\n",
    )


def offered(seen: Seen) -> list[tuple[str, ...]]:
    return [event.tools for event in seen.of(TurnStart)]


def found(seen: Seen, index: int = 0) -> list[str]:
    return [each["name"] for each in json.loads(seen.outcomes[index].value.text())["loaded"]]


def test_tools_that_fit_are_offered_completely(many: Project) -> None:
    write_worker(many, share="")
    seen = many.run("done")
    assert offered(seen) == [("update_plan", *TOOLS)]


def test_deferred_tool_is_named_and_loaded_at_the_end(many: Project) -> None:
    seen = many.run(
        calls(call(FIND_TOOLS, query="delete_parcel")),
        calls(
            call("delete_parcel", name="x"), call(FIND_TOOLS, query="create_invoice, list_invoice")
        ),
        "done",
    )
    first = ("update_plan", FIND_TOOLS)
    assert offered(seen) == [
        first,
        (*first, "delete_parcel"),
        (*first, "delete_parcel", "create_invoice", "list_invoice"),
    ]
    assert seen.statuses == ["success", "success", "success"]
    starts = seen.of(TurnStart)
    assert "- delete_parcel: Remove for ever parcel." in (starts[0].system or "")
    assert starts[1].system == starts[0].system  # told again with the tools, and the same
    told = [event.message for event in seen.of(StatusEvent) if event.level == "info"]
    assert any(
        f"{len(TOOLS)} of them are deferred, and loaded by {FIND_TOOLS}" in sentence
        for sentence in told
    )


def test_deferred_tool_can_be_called_and_is_then_loaded(many: Project) -> None:
    seen = many.run(calls(call("list_meeting", name="all"), call("create_meeting")), "done")
    assert seen.statuses == ["success", "invalid"]
    assert offered(seen)[1] == ("update_plan", FIND_TOOLS, "list_meeting", "create_meeting")


def test_deferred_tool_passes_the_gate(many: Project) -> None:
    worker = many.read("worker.yaml").replace("default: preApproved", "default: ask")
    many.write("worker.yaml", worker)
    seen = many.run(
        calls(call(FIND_TOOLS, query="list_meeting"), call("list_meeting", name="x")),
        "done",
        answers=[ApprovalDecision(False)],
    )
    assert (seen.statuses, [request.tool_name for request in seen.asked]) == (
        ["success", "denied"],
        ["list_meeting"],
    )


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("remove parcels", ["delete_parcel"]),
        ("customer", ["create_customer", "delete_customer", "list_customer"]),
        ("which invoices are there? list them", ["list_invoice"]),
        ("list_parcel list_meeting", ["list_parcel", "list_meeting"]),
    ],
)
def test_search_returns_the_best_matches_first(many: Project, query: str, names: list[str]) -> None:
    seen = many.run(calls(call(FIND_TOOLS, query=query)), "done")
    assert found(seen)[: len(names)] == names
    assert len(found(seen)) <= MAX_FOUND


def test_search_without_a_match_is_an_error(many: Project) -> None:
    seen = many.run(calls(call(FIND_TOOLS, query="zebra")), "done")
    assert seen.statuses == ["error"]
    assert "no tool that could be loaded fits 'zebra'" in (seen.outcomes[0].error or "")


def test_loaded_tools_stay_loaded_on_resume(many: Project) -> None:
    before = many.run(calls(call(FIND_TOOLS, query="list_parcel delete_parcel")), "done")
    past = read_past(before.record)
    after = many.run("done", resume=Resumed(past, before.record[-1]))
    assert offered(after) == [offered(before)[-1]]
    assert after.of(TurnStart)[0].system == before.of(TurnStart)[0].system


def test_session_is_replayed_with_the_recorded_tools(many: Project) -> None:
    many.write(
        "script.yaml",
        json.dumps({"turns": [calls(call(FIND_TOOLS, query="list_parcel")), {"text": "done"}]}),
    )
    assert many.forge("run", "worker.yaml", "go", "-m", "script:script.yaml").returncode == 0
    for tools in ("read-only", "recorded", "live"):
        options = [] if tools == "read-only" else ["--tools", tools]
        done = many.forge("replay", "last", *options)
        assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_tools_of_servers_are_deferred_first_and_built_in_never(many: Project) -> None:
    def server(mode: str) -> dict[str, Any]:
        return {"command": PYTHON, "args": [SERVER, mode]}

    section = json.dumps({"servers": {"small": server("plain"), "large": server("hundreds")}})
    write_worker(many, "tool_share: 0.05", f"  mcp: {section}\n")
    names = offered(many.run("done", timeout=60))[0]
    assert names == ("update_plan", "small__echo", *TOOLS, FIND_TOOLS)
    write_worker(many, "tool_share: 0", f"  mcp: {section}\n")
    seen = many.run(calls(call(FIND_TOOLS, query="large__tool_299")), "done", timeout=60)
    assert offered(seen) == [
        ("update_plan", FIND_TOOLS),
        ("update_plan", FIND_TOOLS, "large__tool_299"),
    ]
    prompt = seen.of(TurnStart)[0].system or ""
    assert [line for line in prompt.splitlines() if "small__" in line or " more of " in line] == [
        "- small__echo",
        "- and 144 more of large",
    ]


def test_deferral_is_set_in_the_config_and_overridden_by_a_worker(many: Project) -> None:
    many.home.mkdir()
    (many.home / "config.yaml").write_text("tool_share: 0.001\n")
    write_worker(many, share="")
    assert offered(many.run("done"))[0] == ("update_plan", FIND_TOOLS)
    write_worker(many, share="tool_share: 0.5")
    assert offered(many.run("done"))[0] == ("update_plan", *TOOLS)


class Growing(Toolset):
    """Has a tool more each time that it is asked, and many at last."""

    name = "growing"
    dynamic = True
    asked = 0

    async def tools(self) -> Sequence[Tool]:
        type(self).asked += 1
        names = [f"tool_{number}" for number in range(1 if self.asked < 3 else 500)]
        return [Tool.from_function(say, name=name) for name in names]


def say(text: str) -> str:
    """Say it."""
    return text


@pytest.mark.long
def test_offered_tools_stay_when_too_many_others_arrive() -> None:
    seen, worker = Seen(), Worker.of(name="w", tools=[Growing], tool_share=0.01)
    model = scripted_model(calls(call("tool_0", text="x")), "done")

    async def go() -> None:
        with anyio.fail_after(60):
            async with WorkerRuntime(
                worker=worker, model=model, on_event=seen.events.append
            ) as runtime:
                await runtime.run("go")

    anyio.run(go)
    assert offered(seen) == [("tool_0",), (FIND_TOOLS, "tool_0")]


@pytest.mark.parametrize("share", ["2", "-0.1", "much"])
def test_share_is_relative_to_the_window(many: Project, share: str) -> None:
    write_worker(many, share=f"tool_share: {share}")
    done = many.forge("worker", "check", "worker.yaml")
    assert (done.returncode, "tool_share" in done.stderr) == (3, True)


def test_search_tool_name_is_reserved(project: Project) -> None:
    project.write("tools.py", 'def find_tools() -> str:\n    """Mine."""\n    return ""\n')
    custom = "custom: {module: ./tools.py, tools: [find_tools], approval: {default: preApproved}}"
    for share, exit_code in (("1", 0), ("0", 3)):
        project.write("worker.yaml", f"name: w\ntool_share: {share}\ntoolsets:\n  {custom}\n")
        project.write(
            "script.yaml", json.dumps({"turns": [calls(call(FIND_TOOLS)), {"text": "done"}]})
        )
        done = project.forge("run", "worker.yaml", "go", "-m", "script:script.yaml")
        assert done.returncode == exit_code
    assert "custom has a tool 'find_tools', which is the name of forge's own tool" in done.stderr


@pytest.mark.long
def test_command_line_shows_deferred_tools(many: Project) -> None:
    listed = many.forge("tools", "list", "worker.yaml", "--tokens")
    assert f"deferred: {len(TOOLS)} (only named, until find_tools loads them)" in listed.stdout
    rows = json.loads(many.forge("tools", "list", "worker.yaml", "--tokens", "--json").stdout)
    assert {row["name"]: row.get("deferred") for row in rows} == {
        "update_plan": None,
        **dict.fromkeys(TOOLS, True),
    }
    prompt = many.forge("worker", "show", "worker.yaml", "--prompt").stdout
    assert "- list_meeting: List every meeting." in prompt
