"""Draw 10,000 deltas on the screen of a conversation against one drawing by rich, and echo keys.

Most of the time goes into Markdown, above all into code and tables, so printing the raw text
would be no fair floor.
"""

from __future__ import annotations

import asyncio
import os
import pty
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

from rich.console import Console
from rich.markdown import Markdown
from table import Row, Sample, best, main, ratio, take_turns

from forge_cli.apps.chat.around import InputHistory, Notice, TextAbove
from forge_cli.apps.chat.drawing import ChatUI
from forge_cli.apps.chat.screen import ChatScreen
from forge_cli.apps.chat.talk import Talk
from forge_cli.core.bus import EventBus
from forge_cli.core.events import Streaming
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.ui.completion import InputCompletion
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import Places

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = "".join(path.read_text() for path in sorted(ROOT.glob("docs/*.md")))
DELTAS = re.findall(r"\S+\s*", DOCUMENTS)[:10_000]
"""Markdown as models write it, word by word."""
LIMIT = 2.0
ECHO = 20.0
"""Milliseconds, on a machine that does nothing else: the echo waits for a core."""
KEYS = "ÄÖÜÉÈÇ"
"""Letters that the text does not contain."""


class Terminal:
    """Yield a pseudo-terminal with a reader."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.stream = os.fdopen(slave, "w", encoding="utf-8")
        self.seen: dict[str, float] = {}
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            for key in KEYS:
                if key.encode() in data:
                    self.seen.setdefault(key, time.monotonic())


async def plain(terminal: Terminal) -> None:
    """Take every delta as it comes, and draw all of them once."""
    bus = EventBus()
    text: list[str] = []
    bus.subscribe(lambda event: text.append(cast(Streaming, event).delta))
    await stream(bus)
    console = Console(file=terminal.stream, width=80, force_terminal=True)
    console.print(Markdown("".join(text)))


async def screen(terminal: Terminal, speak: Callable[[EventBus], Any] | None = None) -> None:
    """Show the same text on the screen of a conversation."""
    bus, facts, places = EventBus(), Facts(model="script:x"), Places(Path.cwd(), {})
    sys.stdin = os.fdopen(os.dup(terminal.stream.fileno()))
    talk = Talk(
        bus,
        facts=facts,
        tools=list,
        places=places,
        history=InputHistory(None),
        signal=InterruptSignal(),
    )
    above = TextAbove(terminal.stream)
    shown = ChatScreen(
        talk,
        above,
        completion=InputCompletion(facts, list, places),
        notice=Notice(lambda text: None),
    )
    output = cast(TextIO, above)
    ui = ChatUI(
        bus,
        output=output,
        terminal=output,
        trace="normal",
        interactive=True,
        stream_text=True,
        live=shown,
        echo=True,
    )
    talk.display, talk.line = ui, shown
    async with ui:
        task = asyncio.create_task(shown.run())
        await (speak or stream)(bus)
        shown.end()
        await task


async def stream(bus: EventBus) -> None:
    for delta in DELTAS:
        bus.emit(Streaming("x", delta, done=False))
        await asyncio.sleep(0)
    bus.emit(Streaming("x", "", done=True))


def measured(action: Callable[[Terminal], Any]) -> Sample:
    terminal = Terminal()
    cpu, wall = time.process_time(), time.monotonic()
    asyncio.run(action(terminal))
    return Sample(time.process_time() - cpu, time.monotonic() - wall)


def echoes() -> list[float]:
    """Return milliseconds until each key is on the screen while a text streams in."""
    terminal, pressed = Terminal(), dict[str, float]()

    async def speak(bus: EventBus) -> None:
        for number, delta in enumerate(DELTAS[:1500]):
            bus.emit(Streaming("x", delta, done=False))
            await asyncio.sleep(0.001)
            if number % 200 == 199 and number // 200 < len(KEYS):
                key = KEYS[number // 200]
                pressed[key] = time.monotonic()
                os.write(terminal.master, key.encode())

    asyncio.run(screen(terminal, speak))
    return [(terminal.seen[key] - moment) * 1000 for key, moment in pressed.items()]


def measure(rounds: int) -> list[Row]:
    taken = take_turns(
        {"plain": lambda: measured(plain), "screen": lambda: measured(screen)}, rounds, warm_up=1
    )
    waited = [each for _ in range(rounds) for each in echoes()]
    return [
        ratio(
            "10,000 deltas, x drawing them once", best(taken["screen"]), best(taken["plain"]), LIMIT
        ),
        Row("echo of a key, ms", statistics.median(waited), ECHO, f"longest {max(waited):.0f} ms"),
    ]


if __name__ == "__main__":
    main(measure, rounds=3)
