"""The order of events at the start of a session: the start, earlier warnings, then the manual tools."""

import pytest

from forge_cli import EventBus, WorkerRuntime, load_worker, tool
from forge_cli.core.events import Event, ManualToolsAvailable, SessionStart, StatusEvent
from forge_cli.engine.runtime.announcements import Announcer
from forge_cli.schema.tool import Tool
from forge_cli.testing import Project

pytestmark = pytest.mark.anyio

START = SessionStart("m", "/work", "interactive")


@tool(manual="both", label="Push it", category="Git")
def push(branch: str = "main") -> str:
    """Push a branch."""
    return branch


@tool(manual="manual")
def deploy() -> str:
    """Deploy."""
    return "deployed"


def heard(bus: EventBus) -> list[Event]:
    events: list[Event] = []
    bus.subscribe(events.append)
    return events


async def test_warnings_during_opening_follow_the_session_start(project: Project) -> None:
    worker = load_worker(project.write("worker.yaml", "name: w\n"))
    project.write("demo.yaml", "turns: [{text: hi}]\n")
    bus = EventBus()
    events = heard(bus)
    async with WorkerRuntime(
        worker=worker, model="script:demo.yaml", workspace=project.folder, bus=bus
    ):
        pass
    start, told = events
    assert isinstance(start, SessionStart)
    assert told == StatusEvent(
        "info",
        "the model is scripted: its words come from demo.yaml, and nothing leaves this machine",
    )


def test_manual_tools_are_announced() -> None:
    bus = EventBus()
    events = heard(bus)
    Announcer(bus, is_root=True).start(
        START, [Tool.from_function(push), Tool.from_function(deploy)]
    )
    branch = {
        "name": "branch",
        "type": "text",
        "required": False,
        "default": "main",
        "hasDefault": True,
        "options": [],
    }
    about = {"label": "Push it", "category": "Git", "description": "Push a branch."}
    bare = {"label": "deploy", "category": None, "description": "Deploy."}
    schemas = [Tool.from_function(each).schema.json_schema for each in (push, deploy)]
    assert events == [
        START,
        ManualToolsAvailable(
            (
                {"name": "push", **about, "fields": [branch], "inputSchema": schemas[0]},
                {"name": "deploy", **bare, "fields": [], "inputSchema": schemas[1]},
            )
        ),
    ]


def test_manual_tools_are_announced_again_after_a_change() -> None:
    bus = EventBus()
    events, announcer, tools = heard(bus), Announcer(bus, is_root=True), [Tool.from_function(push)]
    announcer.start(START, tools)
    announcer.offer(tools)
    announcer.offer([])
    announced = [event.tools for event in events if isinstance(event, ManualToolsAvailable)]
    assert [[entry["name"] for entry in entries] for entries in announced] == [["push"], []]
