"""The view of a session: its drawing and the tabs that get all changes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import anyio
import anyio.lowlevel
from starlette.responses import StreamingResponse

from forge_cli.apps.web.drawing import SessionDrawing
from forge_cli.apps.web.tabs import Tab, encode_message
from forge_cli.core.wire import JsonObject
from forge_cli.record.line import Line

ENTRIES_PER_MESSAGE = 200
"""Entries of the history in one message."""
BATCH_INTERVAL = 0.03
"""Seconds for which changes are collected before they are drawn."""
PAUSE_FACTOR = 4
"""The pause after a drawing as a multiple of its time; long sessions are drawn less often."""


class SessionView:
    """A view, which draws changes once for all tabs."""

    def __init__(self, drawing: SessionDrawing) -> None:
        self.drawing = drawing
        self.tabs: list[Tab] = []
        self.on_tabs: Callable[[], None] = lambda: None
        """Called when a tab opens or closes."""
        self.size = -1
        """Bytes read of a log that another process may write."""
        self._timer: asyncio.TimerHandle | None = None
        self._pause = BATCH_INTERVAL
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def take(self, line: Line) -> None:
        """Update the view from a line of the log."""
        if threading.get_ident() != self._thread:  # the watchdog ends sessions from a thread
            self._loop.call_soon_threadsafe(self.take, line)
            return
        self.drawing.take(line)
        self.update()

    def set_busy(self, busy: bool, queued: Sequence[str] = ()) -> None:
        """Set whether a message is worked on, and the waiting messages."""
        self.drawing.set_busy(busy, queued)
        self.update()

    def set_live(self, live: bool) -> None:
        """Set whether this process works on the session."""
        self.drawing.set_live(live)
        self.update()

    def update(self) -> None:
        """Schedule sending the changes to the tabs."""
        if not self.tabs:
            self.drawing.forget_pending()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._pause, self.flush)

    def tell(self, item: JsonObject) -> None:
        """Send the tabs an object that is not part of the session."""
        for tab in self.tabs:
            tab.put(encode_message([item]))

    def flush(self) -> None:
        """Send the changes to the tabs now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        began = time.perf_counter()
        objects = self.drawing.drain()
        self._pause = max(BATCH_INTERVAL, PAUSE_FACTOR * (time.perf_counter() - began))
        if objects and self.tabs:
            message = encode_message(objects, self.drawing.seq)
            for tab in self.tabs:
                tab.put(message)

    def stream(
        self, after: int, beside: Callable[[SessionView], Coroutine[Any, Any, None]]
    ) -> StreamingResponse:
        """Return the stream of a new tab."""
        return TabStream(self, after, beside)

    async def follow(self, tab: Tab, after: int) -> AsyncIterator[bytes]:
        """Yield the first messages for a tab: missed entries, then the current state.

        The tab gets changes once it has caught up.
        """
        while True:
            until = self.drawing.seq
            entries = self.drawing.history(after)
            while piece := list(islice(entries, ENTRIES_PER_MESSAGE)):
                yield encode_message(piece)
                await anyio.lowlevel.checkpoint()  # drawing a long history must not block others
            if self.drawing.seq == until:
                break
            after = until
        # No await from here on: the tab must neither miss a change nor get one twice.
        self.flush()
        self.tabs.append(tab)
        self.on_tabs()
        yield encode_message([*self.drawing.state(), {"type": "ready"}], self.drawing.seq)

    def leave(self, tab: Tab) -> None:
        """Remove a tab."""
        with suppress(ValueError):
            self.tabs.remove(tab)
            self.on_tabs()

    def close(self) -> None:
        """Send the last changes and close all tabs."""
        self.flush()
        for tab in self.tabs:
            tab.close()


class TabStream(StreamingResponse):
    """The stream of one tab; ``beside`` runs as long as the stream is open."""

    def __init__(
        self,
        view: SessionView,
        after: int,
        beside: Callable[[SessionView], Coroutine[Any, Any, None]],
    ) -> None:
        self._view = view
        self._tab = Tab()
        self._beside = beside
        kind = "text/event-stream"
        headers = {"X-Accel-Buffering": "no"}  # nginx would buffer the events
        super().__init__(self._messages(after), media_type=kind, headers=headers)

    async def _messages(self, after: int) -> AsyncIterator[bytes]:
        async for message in self._view.follow(self._tab, after):
            yield message
        while more := await self._tab.next():
            yield more

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            with self._tab.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._beside, self._view)
                    await super().__call__(scope, receive, send)
                    tasks.cancel_scope.cancel()
        finally:
            self._view.leave(self._tab)
