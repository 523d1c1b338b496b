"""A worker for MCP clients: its tools, calls, questions and log, in both protocol generations.

Covers forge_cli.apps.serve.protocol, forge_cli.apps.serve.served and forge_cli.apps.serve.calls.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types
import pytest
from mcp import Client

from forge_cli.apps.serve import protocol
from forge_cli.apps.serve import served as served_module
from forge_cli.apps.serve.protocol import McpRequests
from forge_cli.apps.serve.served import ServedWorker
from forge_cli.core.bounds import start_loop
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ApprovalDecided, Event, ToolResult, ToolStarted
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.worker import load_worker
from forge_cli.record.log import read_session
from forge_cli.record.overview import last_session, session_files
from forge_cli.testing import Project
from forge_cli.ui.views import no_renderers

OLDER, NEWER = "legacy", "2026-07-28"
both = pytest.mark.parametrize("mode", [OLDER, NEWER])

WORKER = """
name: helper
description: Helps with notes.
model: script:script.yaml
sandbox:
  zones:
    - {name: work, path: ., mode: rw}
toolsets:
  filesystem: {approval: {tools: {delete_file: blocked}}}
  custom:
    module: ./tools.py
    tools: [add, wait, count, secret, big, manual, choose]
    approval: {default: preApproved}
"""
TOOLS = '''
"""Tools for clients."""

import os

import anyio

from forge_cli import ToolContext, tool

AT_WORK: list[int] = []
MOST: list[int] = [0]


@tool(read_only=True)
def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


async def wait(context: ToolContext) -> str:
    """Wait for ever."""
    context.report("halfway", 0.5)
    await anyio.sleep_forever()
    return ""


async def count() -> str:
    """Count the calls that work side by side."""
    AT_WORK.append(1)
    MOST[0] = max(MOST[0], len(AT_WORK))
    for _ in range(20):
        await anyio.sleep(0)
    AT_WORK.pop()
    return str(MOST[0])


def secret() -> dict[str, str]:
    """Tell a secret."""
    return {"found": "key " + os.environ["MY_API_KEY"]}


def big() -> dict[str, str]:
    """Return more than anybody reads."""
    return {"data": "x" * 3_000_000}


async def choose(context: ToolContext) -> str:
    """Let the person choose."""
    return str(await context.ask("Which?", {"type": "object", "properties": {"one": {"type": "string"}}}))


@tool(manual="manual")
def manual() -> str:
    """For people."""
    return "done"
'''
FRESH = '''
"""A toolset that makes its tools anew whenever it is asked, as that of MCP servers does."""

from forge_cli import Tool, Toolset, hookimpl


class Fresh(Toolset):
    name = "fresh"
    asked = 0

    async def tools(self):
        self.asked += 1
        return [self.made(name) for name in ("early", "late")[: 1 + self.asked // 20]]

    def made(self, name):
        def act() -> str:
            """Act."""
            return name

        return Tool.from_function(act, name=name)


@hookimpl
def forge_toolsets():
    return [Fresh]
'''
SCRIPT = """
turns:
  - calls: [{tool: write_file, input: {path: report.md, content: hello}}]
  - text: "The tool says: {result}"
"""


@dataclass
class Asked:
    """A user of a client, who gives the same answer to every question."""

    action: str = "accept"
    content: dict[str, Any] | None = field(default_factory=lambda: {"approve": True})
    messages: list[str] = field(default_factory=list)

    async def __call__(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        self.messages.append(params.message)
        assert params.requested_schema["properties"]["approve"]["type"] == "boolean"
        return mcp_types.ElicitResult(action=self.action, content=self.content)  # type: ignore[arg-type]


@pytest.fixture
def helper(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("script.yaml", SCRIPT)
    return project


@asynccontextmanager
async def served(project: Project) -> AsyncIterator[ServedWorker]:
    worker = load_worker(project.folder / "worker.yaml")
    asked = RunOptions(workspace=project.folder)
    with asked.open_session(worker, print) as session:
        async with ServedWorker(
            asked, worker, asked.host(worker), session, takes_tasks=True
        ) as running:
            yield running


def with_client(project: Project, mode: str, use: Callable[[Client], Any], **options: Any) -> Any:
    """Serve the project's worker to a client of this process, and let ``use`` work with it."""

    async def work() -> Any:
        with project.environment(), anyio.fail_after(60):
            async with served(project) as opened:
                server = McpRequests(opened, no_renderers).server()
                async with Client(server, mode=mode, **options) as client:
                    return await use(client)

    return start_loop(work)


def call_one(
    project: Project, mode: str, name: str, args: dict[str, Any] | None = None, **options: Any
) -> Any:
    async def use(client: Client) -> Any:
        return await client.call_tool(name, args or {})

    return with_client(project, mode, use, **options)


def text_of(result: mcp_types.CallToolResult) -> str:
    (block,) = result.content
    assert block.type == "text"
    return block.text


def recorded(project: Project) -> list[Event]:
    """The events of the session that was worked on last."""
    with project.environment():
        return [line.event for line in read_session(next(iter(session_files()))).lines]


@both
def test_client_sees_the_callable_tools_and_their_effects(helper: Project, mode: str) -> None:
    async def use(client: Client) -> Any:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = with_client(helper, mode, use)
    assert {"read_file", "write_file", "add", "run_helper"} <= tools.keys()
    assert not tools.keys() & {"delete_file", "manual"}

    def hints(name: str) -> tuple[bool, bool, bool]:
        said = tools[name].annotations
        return said.read_only_hint, said.destructive_hint, said.open_world_hint

    assert hints("add") == (True, False, False)
    assert hints("write_file") == (False, True, False)
    assert hints("wait") == (False, True, True)
    assert tools["run_helper"].description == "Helps with notes."
    assert tools["run_helper"].input_schema["required"] == ["task"]


@both
def test_pre_approved_call_runs_and_returns_data(helper: Project, mode: str) -> None:
    result = call_one(helper, mode, "add", {"a": 1, "b": 2})
    assert (text_of(result), result.structured_content, result.is_error) == (
        '{"sum": 3}',
        {"sum": 3},
        False,
    )


@both
def test_user_of_the_client_is_asked_with_the_action_and_reason(helper: Project, mode: str) -> None:
    asked = Asked()
    args = {"path": "a.txt", "content": "one\n\x1b[2Jtwo"}
    result = call_one(helper, mode, "write_file", args, elicitation_callback=asked)
    assert (result.is_error, helper.read("a.txt")) == (False, "one\n\x1b[2Jtwo")
    (message,) = asked.messages
    assert message.startswith("helper wants to call write_file (risk: medium)")
    assert '  path: "a.txt"' in message
    assert "+one" in message
    assert "why: writing in zone 'work' needs your OK" in message
    assert "\x1b" not in message
    (decided,) = [event for event in recorded(helper) if isinstance(event, ApprovalDecided)]
    assert (decided.verdict, decided.approved, decided.by) == ("ask", True, "user")


@pytest.mark.few(3)
@both
@pytest.mark.parametrize(
    "asked",
    [
        Asked("decline", None),
        Asked("cancel", None),
        Asked("accept", {"approve": False}),
        Asked("accept", {}),
    ],
    ids=["decline", "cancel", "no", "nothing"],
)
def test_unclear_answer_is_a_no(helper: Project, mode: str, asked: Asked) -> None:
    result = call_one(
        helper, mode, "write_file", {"path": "a.txt", "content": "x"}, elicitation_callback=asked
    )
    assert result.is_error
    assert text_of(result).startswith("write_file was not called; the user said no")
    assert "in time" not in text_of(result)
    assert not any("for this session" in message for message in asked.messages)
    assert not (helper.folder / "a.txt").exists()


@both
def test_client_that_cannot_ask_gets_a_denial_that_says_so(helper: Project, mode: str) -> None:
    result = call_one(helper, mode, "write_file", {"path": "a.txt", "content": "x"})
    assert result.is_error
    assert "write_file was not called; denied" in text_of(result)
    assert "this client cannot ask its user" in text_of(result)
    assert not (helper.folder / "a.txt").exists()


@both
def test_question_of_a_tool_needs_a_client_that_can_ask(helper: Project, mode: str) -> None:
    result = call_one(helper, mode, "choose", {})
    assert result.is_error
    told = "choose has a question, and this client cannot ask its user, because it does not support elicitation: Which?"
    assert text_of(result) == told


@both
def test_blocked_and_unknown_tools_are_refused(helper: Project, mode: str) -> None:
    async def use(client: Client) -> list[Any]:
        wanted = [
            ("delete_file", {"path": "worker.yaml"}),
            ("manual", {}),
            ("nothing", {}),
            ("add", {"a": "x"}),
        ]
        return [await client.call_tool(name, args) for name, args in wanted]

    results = with_client(helper, mode, use, elicitation_callback=Asked())
    assert all(result.is_error for result in results)
    blocked, manual, nothing, invalid = map(text_of, results)
    assert blocked == "delete_file is blocked: the worker says blocked"
    assert manual == "manual can only be called by a person"
    assert nothing.startswith("there is no tool 'nothing'")
    assert invalid.startswith("invalid input for add")
    assert (helper.folder / "worker.yaml").exists()


@both
def test_worker_tool_accepts_a_task(helper: Project, mode: str) -> None:
    asked, told = Asked(), list[tuple[float, str | None]]()

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))

    async def use(client: Client) -> Any:
        return await client.call_tool(
            "run_helper", {"task": "write a report"}, progress_callback=hear
        )

    result = with_client(helper, mode, use, elicitation_callback=asked)
    assert text_of(result) == "The tool says: Created report.md (5 bytes)."
    assert helper.read("report.md") == "hello"
    assert [message.splitlines()[0] for message in asked.messages] == [
        "helper wants to call write_file (risk: medium)"
    ]
    assert {"calls write_file", "turn 2"} & {message for _, message in told}
    with helper.environment():
        assert len(list(session_files())) == 2


def test_task_without_a_way_to_ask_is_denied_its_calls(helper: Project) -> None:
    result = call_one(helper, OLDER, "run_helper", {"task": "write a report"})
    assert "forge could not ask" in text_of(result)
    assert not (helper.folder / "report.md").exists()


def test_failing_worker_is_an_error_of_the_call(helper: Project) -> None:
    helper.write("script.yaml", "turns: []")
    result = call_one(helper, OLDER, "run_helper", {"task": "write a report"})
    assert result.is_error
    assert "the worker 'helper' ended with failed" in text_of(result)


@both
def test_cancelling_client_interrupts_the_call(helper: Project, mode: str) -> None:
    async def use(client: Client) -> None:
        async def hear(progress: float, total: float | None, message: str | None) -> None:
            assert (progress / (total or 1), message) == (0.5, "halfway")
            scope.cancel()

        with anyio.CancelScope() as scope:
            await client.call_tool("wait", {}, progress_callback=hear)
        assert scope.cancelled_caught
        assert text_of(await client.call_tool("add", {"a": 1, "b": 1})) == '{"sum": 2}'

    with_client(helper, mode, use)
    ended = {
        event.tool_name: event.status for event in recorded(helper) if isinstance(event, ToolResult)
    }
    assert ended == {"wait": "interrupted", "add": "success"}


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize(("mode", "many"), [(OLDER, 300), (NEWER, 1000)])
def test_thousand_concurrent_calls_are_bounded(helper: Project, mode: str, many: int) -> None:
    results = list[Any]()

    async def use(client: Client) -> None:
        async def one() -> None:
            results.append(await client.call_tool("count", {}))

        async with anyio.create_task_group() as tasks:
            for _ in range(many):
                tasks.start_soon(one)

    with_client(helper, mode, use)
    assert len(results) == many
    done = [result for result in results if not result.is_error]
    assert len(done) >= served_module.MAX_OPEN
    assert max(int(text_of(result)) for result in done) <= served_module.MAX_CONCURRENT
    assert all(
        "100 calls are already open" in text_of(result) for result in results if result.is_error
    )


def test_secrets_are_redacted_and_large_results_cut(
    helper: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-very-secret-thing-0123456789")

    async def use(client: Client) -> Any:
        return [await client.call_tool(name, {}) for name in ("secret", "big")]

    secret, big = with_client(helper, OLDER, use)
    assert not secret.is_error
    assert "very-secret" not in secret.model_dump_json()
    assert len(big.model_dump_json()) < 30_000
    assert big.structured_content is None


@both
def test_clients_are_notified_of_new_tools(
    helper: Project, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CHECK_INTERVAL", 0.05)
    helper.write("worker.yaml", WORKER + "  executables: {}\n")
    tool = helper.home / "tools" / "greet"
    tool.mkdir(parents=True)
    heard = anyio.Event()

    async def hear(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            heard.set()

    def add_tool() -> None:
        (tool / "run.sh").write_text("echo hello\n")
        (tool / "tool.yaml").write_text("name: greet\ndescription: Greets.\nentrypoint: run.sh\n")

    async def work() -> list[str]:
        with helper.environment(), anyio.fail_after(60):
            async with served(helper) as opened, anyio.create_task_group() as tasks:
                requests = McpRequests(opened, no_renderers)
                tasks.start_soon(requests.watch_tools)
                async with Client(requests.server(), mode=mode, message_handler=hear) as client:
                    before = await client.list_tools()
                    assert "greet" not in {each.name for each in before.tools}
                    if mode == NEWER:
                        async with client.listen(tools_list_changed=True) as changes:
                            add_tool()
                            await anext(aiter(changes))
                    else:
                        add_tool()
                        await heard.wait()
                    found = [
                        each.name for each in (await client.list_tools(cache_mode="refresh")).tools
                    ]
                tasks.cancel_scope.cancel()
        return found

    assert "greet" in start_loop(work)


def test_clients_are_not_notified_of_equal_tools(
    helper: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CHECK_INTERVAL", 0.01)
    helper.write("worker.yaml", "name: helper\nplugins: [./tools.py]\ntoolsets: {fresh: {}}\n")
    helper.write("tools.py", FRESH)
    found: list[set[str]] = []

    async def work() -> None:
        with helper.environment(), anyio.fail_after(60):
            async with served(helper) as opened, anyio.create_task_group() as tasks:
                requests = McpRequests(opened, no_renderers)
                async with Client(requests.server(), mode=NEWER) as client:
                    async with client.listen(tools_list_changed=True) as changes:
                        tasks.start_soon(requests.watch_tools)
                        await anext(aiter(changes))
                    found.append({tool.name for tool in (await client.list_tools()).tools})
                tasks.cancel_scope.cancel()

    start_loop(work)
    assert found == [{"early", "late", "run_helper"}]


def test_session_log_contains_the_calls_of_a_client(helper: Project) -> None:
    async def use(client: Client) -> None:
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.call_tool("write_file", {"path": "a.txt", "content": "x"})

    with_client(helper, OLDER, use, elicitation_callback=Asked())
    events = recorded(helper)
    assert [event.tool_name for event in events if isinstance(event, ToolStarted)] == [
        "add",
        "write_file",
    ]
    shown = helper.forge("sessions", "show", "last")
    assert "helper with MCP clients" in shown.stdout
    assert "> add a=1 b=2" in shown.stdout
    assert "-- completed: 0 turns, 2 calls" in shown.stdout
    assert helper.forge("sessions", "verify", "last").returncode == 0
    undone = helper.forge("undo")
    assert undone.returncode == 0, undone.stderr
    assert not (helper.folder / "a.txt").exists()


def test_served_session_cannot_be_resumed(helper: Project) -> None:
    call_one(helper, OLDER, "add", {"a": 1, "b": 2})
    with helper.environment(), pytest.raises(WorkerError, match="has no session in"):
        last_session(load_worker(helper.folder / "worker.yaml"), helper.folder)


def test_answer_to_another_call_does_not_count(helper: Project) -> None:
    async def use(client: Client) -> Any:
        first = await client.session.call_tool(
            "write_file", {"path": "a.txt", "content": "x"}, allow_input_required=True
        )
        assert isinstance(first, mcp_types.InputRequiredResult)
        assert first.input_requests
        yes = {
            key: mcp_types.ElicitResult(action="accept", content={"approve": True})
            for key in first.input_requests
        }

        async def again(path: str, state: str | None) -> Any:
            args = {"path": path, "content": "x"}
            return await client.session.call_tool(
                "write_file",
                args,
                input_responses=yes,
                request_state=state,
                allow_input_required=True,
            )

        return [await again("b.txt", first.request_state), await again("a.txt", "made-up")]

    other, unknown = with_client(helper, NEWER, use, elicitation_callback=Asked())
    assert [other.is_error, unknown.is_error] == [True, True]
    assert "belongs to another call" in text_of(other)
    assert not list(helper.folder.glob("?.txt"))


def test_unanswered_question_is_a_no(helper: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forge_cli.apps.serve.calls.ANSWER_TIMEOUT", 0.2)
    done = anyio.Event()

    async def work() -> None:
        with helper.environment(), anyio.fail_after(60):
            async with served(helper) as opened:
                opened.bus.subscribe(
                    lambda event: done.set() if isinstance(event, ToolResult) else None
                )
                server = McpRequests(opened, no_renderers).server()
                async with Client(server, mode=NEWER, elicitation_callback=Asked()) as client:
                    args = {"path": "a.txt", "content": "x"}
                    await client.session.call_tool("write_file", args, allow_input_required=True)
                    await done.wait()

    start_loop(work)
    (result,) = [event for event in recorded(helper) if isinstance(event, ToolResult)]
    assert (result.status, result.error) == (
        "denied",
        "write_file was not called; the user said no: no answer came in time",
    )
    assert json.dumps(result.payload())
