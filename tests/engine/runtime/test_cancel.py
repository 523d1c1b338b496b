"""Cancelling the task that awaits ``run`` always cancels: the log is closed as interrupted, and resumes."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalRequest, Event, WorkerRuntime, load_worker
from forge_cli.core.events import SessionEnd, TurnStart
from forge_cli.core.messages import Delta, ModelProvider, ModelRequest, TextDelta, TurnEnd, Usage
from forge_cli.embedding import open_session
from forge_cli.events import ToolStarted
from forge_cli.record.log import read_session
from forge_cli.testing import Project, call, calls, scripted_model
from tests.support.interpreter import PYTHON

TOOLS = """
import anyio, os, time

async def hold() -> str:
    await anyio.sleep(30)
    return "never"

def block() -> str:
    until = time.monotonic() + 30
    while not os.path.exists("let-go") and time.monotonic() < until:
        time.sleep(0.01)
    return "never"

async def shield() -> str:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(0.1)
    return "done all the same"

async def asking() -> str:
    raise AssertionError("called after the work was cancelled")
"""
WORKER = """
name: w
toolsets:
  custom:
    module: ./tools.py
    tools: [hold, block, shield, asking]
    approval: {default: preApproved, tools: {asking: ask}}
  shell: {default: preApproved}
  workers: {allowed: [child, mute], approval: {default: preApproved}}
"""
CHILD = """
name: child
model: script:child.script.yaml
toolsets: {custom: {module: ./tools.py, tools: [hold], approval: {default: preApproved}}}
"""
MUTE = "toolsets: {mcp: {servers: {m: {command: sh, args: [-c, cat > /dev/null]}}}}\n"
"""A server that never says anything."""

Work = Callable[[], Awaitable[Any]]


class Stuck:
    """A model that never answers."""

    name, context_window = "stuck:x", None

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        await anyio.sleep(30)
        yield  # type: ignore[misc]

    async def aclose(self) -> None: ...


class Stubborn(Stuck):
    """A model that takes its cancellation for the end of its answer."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        yield TextDelta("all the same")
        yield TurnEnd("end", Usage())


async def allow(request: ApprovalRequest) -> bool:
    """Take a cancellation for a yes."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(30)
    return True


def script(tool: str, **args: Any) -> ModelProvider:
    return scripted_model(calls(call(tool, **args)), "never")


WAITS: dict[str, tuple[Callable[[], ModelProvider], str | None]] = {
    "async tool": (lambda: script("hold"), "hold"),
    "sync tool": (lambda: script("block"), "block"),
    "tool that shields itself": (lambda: script("shield"), "shield"),
    "child process": (lambda: script("shell", command="sleep 30"), "shell"),
    "child worker": (lambda: script("child", input="go"), "hold"),
    "child worker that is being opened": (lambda: script("mute", input="go"), "mute"),
    "callback that swallows it": (lambda: script("asking"), "asking"),
    "model": (Stuck, None),
    "model that swallows it": (Stubborn, None),
}
"""The model, and the tool at whose start the work is cancelled."""


async def by_task(work: Work, now: asyncio.Event) -> None:
    task = asyncio.ensure_future(work())
    await now.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_timeout(work: Work, now: asyncio.Event) -> None:
    with pytest.raises(TimeoutError):  # noqa: PT012
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            group.create_task(
                _then(now, lambda: limit.reschedule(asyncio.get_running_loop().time()))
            )
            await work()


async def by_sibling(work: Work, now: asyncio.Event) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012
        async with asyncio.TaskGroup() as group:
            group.create_task(_then(now, fail))
            await work()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]


async def by_scope(work: Work, now: asyncio.Event) -> None:
    with pytest.raises(TimeoutError), anyio.fail_after(30) as scope:  # noqa: PT012
        task = asyncio.create_task(
            _then(now, lambda: setattr(scope, "deadline", anyio.current_time()))
        )
        await work()
    await task


async def _then(now: asyncio.Event, act: Callable[[], object]) -> None:
    await now.wait()
    act()


WAYS = [
    (by_task, False),
    (by_timeout, False),
    (by_sibling, False),
    (by_scope, False),
    (by_timeout, True),
    (by_scope, True),
]
"""How it is cancelled, and whether the runtime stays open meanwhile."""


async def cancel(
    project: Project,
    waits: str,
    way: Callable[[Work, asyncio.Event], Awaitable[None]],
    inside: bool,
) -> str:
    """Cancel the work while it waits; ``inside`` while the runtime stays open. Returns the id of the session."""
    make, tool = WAITS[waits]
    now, worker = asyncio.Event(), load_worker(project.folder / "worker.yaml")

    def hear(event: Event) -> None:
        match event:
            case ToolStarted(tool_name=name) if name == tool:
                asyncio.get_running_loop().call_later(0.02, now.set)
            case TurnStart() if tool is None:
                asyncio.get_running_loop().call_later(0.02, now.set)

    with open_session(worker, workspace=project.folder) as session:
        runtime = WorkerRuntime(
            worker=worker,
            model=make(),
            session=session,
            on_event=hear,
            workspace=project.folder,
            approval_callback=allow,
        )

        async def work() -> None:
            async with AsyncExitStack() as stack:
                if not inside:
                    await stack.enter_async_context(runtime)
                await runtime.run("go")

        if inside:
            async with runtime:
                await way(work, now)
        else:
            await way(work, now)
        return session.id


@pytest.fixture
def held(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    project.write("child.yaml", CHILD)
    project.write("mute.yaml", f"name: mute\n{MUTE}")
    project.write("child.script.yaml", "turns: [{calls: [{tool: hold}]}]\n")
    monkeypatch.chdir(project.folder)
    return project


@pytest.mark.few(3)
@pytest.mark.needs("bash")
@pytest.mark.parametrize("waits", WAITS)
def test_cancellation_ends_a_runtime_at_every_point(held: Project, waits: str) -> None:
    failures = []
    with held.environment():
        for way, inside in WAYS:
            started = time.monotonic()
            session = asyncio.run(cancel(held, waits, way, inside))
            if (took := time.monotonic() - started) > 10:
                failures.append((way.__name__, inside, f"took {took:.1f} seconds"))
            lines = [
                line.data
                for line in read_session(held.home / "sessions" / f"{session}.jsonl").lines
            ]
            begun = [line["toolCallId"] for line in lines if line.get("type") == "toolStarted"]
            ended = [line["toolCallId"] for line in lines if line.get("type") == "toolResult"]
            if (
                sorted(begun) != sorted(ended)
                or lines[-1].get("result", {}).get("status") != "interrupted"
            ):
                failures.append((way.__name__, inside, begun, ended, lines[-1]))
        if (again := asyncio.run(resume(held, session))) != ("completed", "resumed"):
            failures.append(("resume", again))
    held.write("let-go", "")
    assert failures == []


async def resume(project: Project, session: str) -> tuple[str, str]:
    worker = load_worker(project.folder / "worker.yaml")
    with (
        anyio.fail_after(20),
        open_session(worker, resume=session, workspace=project.folder) as opened,
    ):
        model = scripted_model("resumed")
        async with WorkerRuntime(
            worker=worker, model=model, session=opened, workspace=project.folder
        ) as runtime:
            result = await runtime.run("")
    return result.status, result.response


SERVER = "from mcp.server import MCPServer; MCPServer('m').run()"


@pytest.mark.parametrize("closing", [False, True])
def test_server_neither_delays_nor_swallows_a_cancellation(held: Project, *, closing: bool) -> None:
    """A server that never answers a connection, and one that is being closed."""
    server = json.dumps({"command": PYTHON, "args": ["-c", SERVER]})
    toolsets = f"toolsets: {{mcp: {{servers: {{m: {server}}}}}}}\n" if closing else MUTE
    held.write("worker.yaml", f"name: w\n{toolsets}")
    now = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, SessionEnd):
            asyncio.get_running_loop().call_soon(now.set)

    async def work() -> None:
        worker = load_worker(held.folder / "worker.yaml")
        model = scripted_model("done")
        async with WorkerRuntime(
            worker=worker, model=model, on_event=hear, workspace=held.folder
        ) as runtime:
            await runtime.run("go")

    async def story() -> None:
        if not closing:
            asyncio.get_running_loop().call_later(0.5, now.set)
        await by_task(work, now)

    started = time.monotonic()
    with held.environment():
        asyncio.run(story())
    assert closing or time.monotonic() - started < 10
