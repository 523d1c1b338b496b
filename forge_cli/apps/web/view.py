"""A session that is looked at: its drawing, and the tabs that are told of every change in it."""

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

PIECE = 200
"""Entries of the history in one message."""
BATCH = 0.03
"""Seconds in which changes are collected before they are drawn."""
REST = 4
"""Drawing takes one part of the time, and leaves so many to others: what is long is drawn less often."""


class SessionView:
    """Draws once what any number of tabs get."""

    def __init__(self, drawing: SessionDrawing) -> None:
        self.drawing = drawing
        self.tabs: list[Tab] = []
        self.on_tabs: Callable[[], None] = lambda: None
        """Called when a tab has come or gone."""
        self.size = -1
        """Bytes of the log that were read, where this process does not work on it."""
        self._timer: asyncio.TimerHandle | None = None
        self._pause = BATCH
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def take(self, line: Line) -> None:
        """A sink of the record; a line of another thread, which ends the process perhaps, waits for the loop."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self.take, line)
            return
        self.drawing.take(line)
        self.update()

    def set_busy(self, busy: bool, queued: Sequence[str] = ()) -> None:
        self.drawing.set_busy(busy, queued)
        self.update()

    def set_live(self, live: bool) -> None:
        self.drawing.set_live(live)
        self.update()

    def update(self) -> None:
        """Tell the tabs what has changed, in a moment."""
        if not self.tabs:
            self.drawing.forget_pending()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._pause, self.flush)

    def tell(self, item: JsonObject) -> None:
        """Tell the tabs something that is not part of the session."""
        for tab in self.tabs:
            tab.put(encode_message([item]))

    def flush(self) -> None:
        """Tell the tabs what has changed, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        began = time.perf_counter()
        objects = self.drawing.drain()
        self._pause = max(BATCH, REST * (time.perf_counter() - began))
        if objects and self.tabs:
            message = encode_message(objects, self.drawing.seq)
            for tab in self.tabs:
                tab.put(message)

    def stream(
        self, after: int, beside: Callable[[SessionView], Coroutine[Any, Any, None]]
    ) -> StreamingResponse:
        """The answer to a tab that has opened."""
        return TabStream(self, after, beside)

    async def follow(self, tab: Tab, after: int) -> AsyncIterator[bytes]:
        """The first objects for a tab: the entries that it has missed, then all that holds now.

        Between two pieces others have their turn. The tab is one of ours once it has caught up.
        """
        while True:
            until = self.drawing.seq
            entries = self.drawing.history(after)
            while piece := list(islice(entries, PIECE)):
                yield encode_message(piece)
                await anyio.lowlevel.checkpoint()
            if self.drawing.seq == until:
                break
            after = until
        self.flush()
        self.tabs.append(tab)
        self.on_tabs()
        yield encode_message([*self.drawing.state(), {"type": "ready"}], self.drawing.seq)

    def leave(self, tab: Tab) -> None:
        with suppress(ValueError):
            self.tabs.remove(tab)
            self.on_tabs()

    def close(self) -> None:
        """Let every tab go, once it has been told everything."""
        self.flush()
        for tab in self.tabs:
            tab.close()


class TabStream(StreamingResponse):
    """The stream of one tab, until it is gone, closed, or too far behind; ``beside`` works for as long."""

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
        headers = {"X-Accel-Buffering": "no"}
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
