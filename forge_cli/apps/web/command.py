"""The command ``forge web``: a page on this machine for conversations with workers."""

from __future__ import annotations

import os
import socket
import sys
import webbrowser
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer
from anyio.abc import TaskGroup

from forge_cli.apps.web.access import AccessGate, PageAccess
from forge_cli.apps.web.api import PageRoutes
from forge_cli.cli.ask_trust import offer_trust
from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.run_options import WorkOptions
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.interrupt import Interrupted
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.process.stdin import is_interactive
from forge_cli.process.watchdog import say_fault
from forge_cli.ui.http import open_socket

if TYPE_CHECKING:
    import uvicorn

    from forge_cli.apps.web.sessions import WebSessions

app = new_app()
HOST = "127.0.0.1"
NEXT = "forge: {url}\n  for another browser; the address before was used\n"
REMOTE = """forge: everybody who can reach {host} and has the address can run what workers can;
  the connection is not encrypted, so others on the network can read it
"""


@app.command()
def web(
    options: WorkOptions,
    worker: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER",
            help="Worker to start: a name, a worker file, or a folder with one.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="Port to listen on; 0 finds a free one.")
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address without opening a browser.")
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="H", help="Address to listen on; others need --allow-remote."
        ),
    ] = HOST,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote", help="Let others who have the address connect, without encryption."
        ),
    ] = False,
) -> None:
    """Talk with workers in a browser, and watch them there.

    forge prints the address on standard error. Its secret works once: it admits one browser, then
    forge prints the next address. Calls that ask wait until a tab answers; with --on-ask park, they
    are parked while no tab is open. Ctrl+C ends the server and its sessions.
    """
    if host != HOST and not allow_remote:
        hint = "add --allow-remote to let others connect"
        raise UsageError(f"--host {host}: other machines could reach the page", hint=hint)
    interactive = is_interactive()
    offer_trust(options.workspace)
    path = ""
    if worker is not None:
        path = str(Path(find_trusted_worker(worker, interactive=interactive)).absolute())
    asked = options.chosen(path, worker or "")
    with open_socket(host, port) as listener, data_output():
        access = PageAccess(listener.getsockname()[1], host)
        if host != HOST:
            sys.stderr.write(REMOTE.format(host=host))
        sys.stderr.write(f"forge: {access.url}\n  Ctrl+C ends it\n")
        sys.stderr.flush()
        opens = not no_open and interactive and _has_display()
        code = in_loop(serve, asked, listener, access, webbrowser.open if opens else None)
    raise typer.Exit(code)


def _has_display() -> bool:
    if sys.platform == "darwin":
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


class Serving:
    """The server and its sessions."""

    def __init__(self, asked: RunOptions, tasks: TaskGroup) -> None:
        self._asked = asked
        self._tasks = tasks
        # Imported here, so that the address is printed before the slow imports.
        module = import_module("forge_cli.apps.web.sessions")
        self.sessions: WebSessions = module.WebSessions(asked, tasks)
        self._stop = anyio.Event()
        self.reason: str | None = None

    def end(self, reason: str) -> None:
        """Stop all sessions, then the server."""
        self.reason = self.reason or reason
        self.sessions.stop(reason)
        self._stop.set()

    def leave(self, end: ForcedEnd) -> int:
        """Record the ends without the event loop, which third-party code blocks."""
        for live in self.sessions.live.values():
            live.end_now(end)
        if end.fault:
            return say_fault(end)
        return end.exit_code

    async def run(
        self,
        listener: socket.socket,
        access: PageAccess,
        open_page: Callable[[str], object] | None = None,
    ) -> None:
        """Serve until the end; then end the sessions first and the tabs after them."""
        from forge_cli.ui.server import new_server

        def print_next() -> None:
            sys.stderr.write(NEXT.format(url=access.url))
            sys.stderr.flush()

        server = new_server(AccessGate(PageRoutes(self.sessions).router(), access, print_next))
        self._tasks.start_soon(self._end_server, server)
        if self._asked.worker:
            await self._start_first()
        if open_page:
            open_page(access.url)
        await server.serve(sockets=[listener])

    async def _start_first(self) -> None:
        try:
            self.sessions.first = await self.sessions.start()
        except ForgeError:
            if self.reason is None:  # a failure because of the end is not reported
                raise

    async def _end_server(self, server: uvicorn.Server) -> None:
        await self._stop.wait()
        await self.sessions.wait_until_ended()
        server.should_exit = True


async def serve(
    asked: RunOptions,
    listener: socket.socket,
    access: PageAccess,
    open_page: Callable[[str], object] | None,
) -> ExitCode:
    """Serve until a signal arrives."""
    async with anyio.create_task_group() as tasks:
        serving = Serving(asked, tasks)
        with interruptible(serving.end, leave=serving.leave):
            await serving.run(listener, access, open_page)
        tasks.cancel_scope.cancel()
    return Interrupted(serving.reason).exit_code
