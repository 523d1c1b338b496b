"""``/mcp`` in a conversation.

Covers forge_cli.toolsets.mcp.toolset.
"""

from forge_cli.core.events import Event, StatusEvent, ToolResult
from forge_cli.events import CommandEvent, UserInput
from forge_cli.testing import Project, call, calls

from .test_mcp import definition, servers
from .test_requests import converse


def told_after(project: Project, *said: Event, turns: int = 0) -> list[str]:
    """The messages after each command, and the results of the model's calls."""
    events = converse(project, *said, turns=[calls(call("s__echo", text="x")), "done"] * turns)
    heard = [each for each in events if isinstance(each, ToolResult | StatusEvent)]
    told = [
        (each.level, each.message) if isinstance(each, StatusEvent) else ("", each.status)
        for each in heard
    ]
    return [text for level, text in told if level != "debug"]


def mcp(*args: str) -> CommandEvent:
    return CommandEvent("mcp", args)


def test_servers_are_listed_disabled_enabled_and_reconnected(project: Project) -> None:
    servers(project, {"s": definition("plain"), "gone": definition("absent")})
    go = UserInput("input", "go")
    said = [
        mcp(),
        mcp("off", "s"),
        go,
        mcp(),
        mcp("on", "s"),
        go,
        mcp("on", "s"),
        mcp("reconnect", "s"),
        go,
    ]
    told = told_after(project, *said, turns=3)
    told = [
        each.partition(": no such database")[0].partition("; its last output")[0] for each in told
    ]
    told = [each.replace("the process no longer reads its input", "it ended") for each in told]
    on, off, gone = "s: connected, 1 tool", "s: off", "gone: not connected: it ended"
    assert [each for each in told if not each.startswith("MCP server gone")] == [
        *(on, gone, off),
        "not_found",
        *(off, gone, on),
        "success",
        *(on, on),
        "success",
    ]


def test_invalid_mcp_arguments_are_reported(project: Project) -> None:
    servers(project, {"time": definition("plain")})
    told = told_after(
        project, mcp("off"), mcp("of", "time"), mcp("off", "tme"), mcp("on", "time", "x")
    )
    assert [each.partition(";")[0] for each in told] == [
        "invalid arguments 'off'",
        "invalid arguments 'of time'",
        "there is no MCP server 'tme'",
        "invalid arguments 'on time x'",
    ]
    assert "did you mean 'time'?" in told[2]


def test_mcp_command_without_servers_says_so(project: Project) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {plan: {}}\n")
    assert told_after(project, mcp()) == ["this worker has no toolset 'mcp'"]
