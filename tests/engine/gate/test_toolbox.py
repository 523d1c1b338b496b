"""Toolsets that fail or never answer: they are named, and existing tools stay during a session.

Covers forge_cli.engine.gate.toolbox, forge_cli.engine.gate.offer.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forge_cli import EventBus
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import StatusEvent, TurnStart
from forge_cli.engine.gate import toolbox
from forge_cli.engine.runtime import open_worker
from forge_cli.testing import Project, Seen, call, calls
from tests.support.distributions import write_distribution

PLUGIN = '''
"""A toolset for these tests."""
import asyncio
import time
from forge_cli import Toolset, hookimpl, tool

class Moody(Toolset):
    name = "moody"
    asked = 0

    {body}

    @tool(needs_approval=False)
    def act(self) -> str:
        "Act."
        return "done"

@hookimpl
def forge_toolsets():
    return [Moody]
'''
LISTING = """
    async def tools(self):
        self.asked += 1
        if self.asked > 1:
            {fault}
        return await super().tools()
"""
TITLE = "toolsets.moody (forge-tools-moody 1.0)"

Moody = Callable[[str], Project]


@pytest.fixture
def moody(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moody]:
    """A worker with a toolset from a package, whose class has this body."""
    site = tmp_path / "site"
    write_distribution(site, "forge-tools-moody", ["moody = moody_plugin"])
    monkeypatch.syspath_prepend(str(site))
    for module in (toolbox, open_worker):
        monkeypatch.setattr(module, "CALL_LIMIT", 0.1)
    monkeypatch.setenv("FORGE_IMPORT_TIMEOUT", "0.1")
    project.write("worker.yaml", "name: w\ntoolsets: {moody: {}}\n")

    def write(body: str) -> Project:
        (site / "moody_plugin.py").write_text(PLUGIN.replace("{body}", body.strip()))
        return project

    yield write
    sys.modules.pop("moody_plugin", None)


def warnings(seen: Seen) -> list[str]:
    return [event.message for event in seen.of(StatusEvent) if event.level == "warning"]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("raise RuntimeError('gone')", "its tools cannot be listed: RuntimeError: gone"),
        ("raise SystemExit", "its tools cannot be listed: SystemExit"),
        ("return [7]", "tools() of 'Moody' returned 7, which is not a Tool"),
        ("return None", "tools() of 'Moody' returned None, which is not a Tool"),
        (
            "await asyncio.Event().wait()",
            "its tools cannot be listed: tools() did not end within 0.1 seconds",
        ),
    ],
)
def test_tools_stay_during_a_session_and_a_change_is_reported_once(
    moody: Moody, fault: str, told: str
) -> None:
    seen = moody(LISTING.format(fault=fault)).run(calls(call("act")), calls(call("act")), "done")
    assert seen.result.status == "completed"
    assert [event.tools for event in seen.of(TurnStart)] == [("act",)] * 3
    assert seen.statuses == ["success", "success"]
    assert warnings(seen) == [f"{TITLE}: {told}; keeping its previous tools"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def __init__(self, *args): raise KeyError('x')", "it cannot start: KeyError: 'x'"),
        ("async def __aenter__(self): raise GeneratorExit", "it cannot start: GeneratorExit"),
        (
            "async def __aenter__(self): await asyncio.Event().wait()",
            "it cannot start: opening it did not end within 0.1 seconds",
        ),
        (
            "async def tools(self): await asyncio.Event().wait()",
            "its tools cannot be listed: tools() did not end within 0.1 seconds",
        ),
        (
            "def instructions(self): raise ValueError('mute')",
            "its instructions cannot be read: ValueError: mute",
        ),
        (
            "@classmethod\n    def zones(cls, home): raise ValueError('none')",
            "zones() failed: ValueError: none",
        ),
        (
            "@classmethod\n    def own_files(cls, *args): return 7",
            "own_files() failed: TypeError: 'int' object",
        ),
    ],
)
def test_toolset_that_cannot_open_is_reported_with_its_distribution(
    moody: Moody, body: str, told: str
) -> None:
    with pytest.raises(ForgeError) as caught:
        moody(body).run("never")
    assert f"{TITLE}: {told}" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            "async def __aexit__(self, *error): raise OSError('stuck')",
            "it cannot be closed: OSError: stuck",
        ),
        (
            "async def __aexit__(self, *error): await asyncio.Event().wait()",
            "it cannot be closed: __aexit__() did not end within 0.1 seconds",
        ),
    ],
)
def test_failure_to_close_changes_nothing(moody: Moody, body: str, told: str) -> None:
    bus, heard = EventBus(), list[str]()
    bus.subscribe(
        lambda event: heard.append(event.message) if isinstance(event, StatusEvent) else None
    )
    seen = moody(body).run("the answer", bus=bus)
    assert (seen.result.status, seen.result.response) == ("completed", "the answer")
    assert seen.types[-1] == "sessionEnd"
    assert heard == [f"{TITLE}: {told}"]
