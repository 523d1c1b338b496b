"""A server for the page from its start to its end, and how signals end it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from forge_cli import ui
from forge_cli.apps.web.access import AccessGate, PageAccess
from forge_cli.apps.web.api import PageRoutes
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.core.interrupt import Interrupted
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.process.signals import interruptible
from forge_cli.process.watchdog import say_fault

if TYPE_CHECKING:
    import uvicorn

    from forge_cli.apps.web.sessions import WebSessions


class Serving:
    """Loads what sessions need when somebody wants one, for the page itself is there sooner."""

    def __init__(self, asked: RunOptions, tasks: TaskGroup) -> None:
        self._asked, self._tasks = asked, tasks
        self.sessions: WebSessions | None = None
        self._stop = anyio.Event()
        self.reason: str | None = None

    def find(self) -> WebSessions:
        if self.sessions is None:
            make = import_module("forge_cli.apps.web.sessions").WebSessions
            self.sessions = make(self._asked, self._tasks)
        return self.sessions

    def end(self, reason: str) -> None:
        self.reason = self.reason or reason
        if self.sessions:
            self.sessions.stop(reason)
        self._stop.set()

    def leave(self, end: ForcedEnd) -> int:
        """Third-party code holds the process: put everything in order without it."""
        for live in self.sessions.live.values() if self.sessions else ():
            if live.opened:
                live.opened.end_now(end)
        return say_fault(end) if end.fault else end.exit_code

    async def run(
        self, listener: socket.socket, access: PageAccess, open_page: Callable[[str], object] | None = None
    ) -> None:
        """Serve until the end; then the sessions end first, the tabs after them."""
        server = ui.server.new_server(AccessGate(PageRoutes(self.find).router(), access))
        self._tasks.start_soon(self._end_server, server)
        if self._asked.worker:
            await self._start_first()
        if open_page:
            open_page(access.url)
        await server.serve(sockets=[listener])

    async def _start_first(self) -> None:
        sessions = self.find()
        try:
            sessions.first = await sessions.start()
        except ForgeError:
            if self.reason is None:
                raise

    async def _end_server(self, server: uvicorn.Server) -> None:
        await self._stop.wait()
        if self.sessions:
            await self.sessions.wait_until_ended()
        server.should_exit = True


async def serve(
    asked: RunOptions, listener: socket.socket, access: PageAccess, open_page: Callable[[str], object] | None
) -> ExitCode:
    """Serve until a signal comes."""
    async with anyio.create_task_group() as tasks:
        serving = Serving(asked, tasks)
        with interruptible(serving.end, leave=serving.leave):
            await serving.run(listener, access, open_page)
        tasks.cancel_scope.cancel()
    return Interrupted(serving.reason).exit_code
