"""A worker opened without a model: what it offers can be seen and called, and what toolsets tell reaches the bus."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bus import EventBus
from forge_cli.core.calls import ToolCall
from forge_cli.core.events import Event, StatusEvent
from forge_cli.engine.gate.judge import Caller
from forge_cli.engine.runtime.without_model import bare_worker, opened
from forge_cli.process.signals import in_loop
from forge_cli.testing import Project


@pytest.fixture
def within(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("FORGE_HOME", str(project.home))

    async def run(function: Callable[..., Any], toolsets: dict[str, object], **settings: Any) -> Any:
        with anyio.fail_after(60):
            async with opened(bare_worker(toolsets), workspace=project.folder, **settings) as assembly:
                return await function(assembly)

    return lambda *args, **settings: in_loop(lambda: run(*args, **settings))


def test_a_bare_worker_has_its_toolsets_and_the_default_zone(within: Callable[..., Any], project: Project) -> None:
    project.write("a.txt", "one")

    async def read(assembly: Any) -> Any:
        assert set(assembly.toolbox.offers) >= {"read_file", "write_file"}
        return await assembly.guard.call(ToolCall("c", "read_file", {"path": "a.txt"}), Caller.OPERATOR)

    assert within(read, {"filesystem": {}}).value.content == "one"


@pytest.mark.parametrize(
    ("mode", "status"), [(ApprovalMode.APPROVE_ALL, "success"), (ApprovalMode.AUTO_DENY, "denied")]
)
def test_the_mode_answers(within: Callable[..., Any], mode: ApprovalMode, status: str, project: Project) -> None:
    async def write(assembly: Any) -> Any:
        call = ToolCall("c", "write_file", {"path": "b.txt", "content": "x"})
        return await assembly.guard.call(call, Caller.OPERATOR)

    assert within(write, {"filesystem": {}}, mode=mode).status == status
    assert Path(project.folder, "b.txt").exists() is (status == "success")


@pytest.mark.needs("bwrap")
def test_what_a_toolset_tells_is_a_status_event(within: Callable[..., Any], project: Project) -> None:
    (project.home / "tools" / "broken").mkdir(parents=True)
    events: list[Event] = []
    bus = EventBus()
    bus.subscribe(events.append)

    async def look(assembly: Any) -> None: ...

    within(look, {"executables": {}}, bus=bus)
    told = [event.level for event in events if isinstance(event, StatusEvent) and event.level not in ("info", "debug")]
    assert told == ["warning"]
