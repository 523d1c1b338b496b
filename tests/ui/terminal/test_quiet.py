"""A terminal that nobody watches is told errors and nothing else, in the words of the trace."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from forge_cli.core.bus import EventBus
from forge_cli.core.events import Event, Origin, StatusEvent, TurnStart
from forge_cli.core.notify import UNCONFINED_RULES
from forge_cli.ui.terminal.quiet import QuietUI
from forge_cli.ui.terminal.terminal import TerminalUI
from forge_cli.ui.views import no_renderers

EVENTS: list[Event] = [
    TurnStart(1, "digest", ()),
    StatusEvent("info", "something"),
    StatusEvent("warning", "beware"),
    StatusEvent("warning", UNCONFINED_RULES),
    StatusEvent("error", "it is\x1b[2J broken", origin=Origin("helper", 1, "task_1", ("boss", "helper"))),
]


@pytest.mark.anyio
async def test_it_says_what_a_quiet_terminal_says() -> None:
    bus, ours, theirs = EventBus(), io.StringIO(), io.StringIO()
    quiet = QuietUI(bus, trace_output=ours, find=no_renderers)
    terminal = TerminalUI(
        bus, output=io.StringIO(), trace="quiet", trace_output=theirs, stream_text=False, interactive=False
    )
    async with quiet, terminal:
        assert not bus.attended
        for event in EVENTS:
            bus.emit(event)
    bus.emit(EVENTS[-1])
    assert ours.getvalue() == theirs.getvalue()
    assert ours.getvalue().splitlines() == [f"warning: {UNCONFINED_RULES}", "  helper: error: it is\\x1b[2J broken"]


def test_nothing_that_draws_is_loaded_for_it() -> None:
    look = "import sys; import forge_cli.ui.terminal.quiet; assert not {'rich', 'csv'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", look], check=True, timeout=60)
