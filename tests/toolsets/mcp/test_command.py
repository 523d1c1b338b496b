"""``/mcp`` in a conversation.

Covers forge_cli.toolsets.mcp.toolset.
"""

import anyio

from forge_cli import WorkerRuntime, load_worker
from forge_cli.core.events import Event, StatusEvent, ToolResult
from forge_cli.events import CommandEvent, UserInput
from forge_cli.testing import Project, call, calls, scripted_model

from .test_mcp import definition, servers


def converse(project: Project, *said: Event, turns: int = 0) -> list[str]:
    """What is told after each of these, and how the calls of the model end."""
    told: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, StatusEvent) and event.level != "debug":
            told.append(event.message)
        if isinstance(event, ToolResult):
            told.append(event.status)

    async def main() -> None:
        model = scripted_model(*[calls(call("s__echo", text="x")), "done"] * turns)
        worker = load_worker(project.folder / "worker.yaml")
        with anyio.fail_after(60):
            async with (
                WorkerRuntime(worker=worker, model=model, on_event=hear, workspace=project.folder) as runtime,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(runtime.converse)
                await anyio.lowlevel.checkpoint()
                for event in (*said, CommandEvent("exit")):
                    runtime.bus.emit(event)

    with project.environment():
        anyio.run(main)
    return told


def mcp(*args: str) -> CommandEvent:
    return CommandEvent("mcp", args)


def test_servers_are_listed_turned_off_and_on_and_connected_to_anew(project: Project) -> None:
    servers(project, {"s": definition("plain"), "gone": definition("absent")})
    go = UserInput("input", "go")
    said = [mcp(), mcp("off", "s"), go, mcp(), mcp("on", "s"), go, mcp("on", "s"), mcp("reconnect", "s"), go]
    told = converse(project, *said, turns=3)
    told = [each.partition(": no such database")[0].partition("; its last words")[0] for each in told]
    on, off, gone = "s: connected, 1 tool", "s: off", "gone: not connected: it has ended"
    assert [each for each in told if not each.startswith("the MCP server gone")] == [
        *(on, gone, off),
        "not_found",
        *(off, gone, on),
        "success",
        *(on, on),
        "success",
    ]


def test_what_mcp_does_not_take(project: Project) -> None:
    servers(project, {"time": definition("plain")})
    told = converse(project, mcp("off"), mcp("of", "time"), mcp("off", "tme"), mcp("on", "time", "x"))
    assert [each.partition(": it is")[0].partition(";")[0] for each in told] == [
        "/mcp does not take 'off'",
        "/mcp does not take 'of time'",
        "there is no MCP server 'tme'",
        "/mcp does not take 'on time x'",
    ]
    assert "did you mean 'time'?" in told[2]


def test_a_worker_without_servers(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {plan: {}}\n")
    assert converse(project, mcp()) == ["this worker has no toolset 'mcp'"]
