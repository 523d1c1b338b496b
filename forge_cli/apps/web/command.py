"""``forge web``: a page on this machine, for conversations with workers, from its start to its end."""

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
NEXT = "forge: {url}\n  for another browser; the address before has been used\n"
REMOTE = """forge: everybody who can reach {host} and has the address may run what your workers may run,
  and others on the network can read along: there is no encryption
"""


@app.command()
def web(
    options: WorkOptions,
    worker: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER",
            help="Start this one: a name, a worker file, or a folder with one. The page lists others.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="Listen on this port; 0 finds a free one.")
    ] = 0,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Print the address, and open no browser.")
    ] = False,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="H", help="Listen on another address; only with --allow-remote."
        ),
    ] = HOST,
    allow_remote: Annotated[
        bool,
        typer.Option(
            "--allow-remote", help="Let others connect who know the address, unencrypted."
        ),
    ] = False,
) -> None:
    """Talk with workers in a browser, and watch them there.

    The address is printed on standard error, with a secret that is good once: it lets one browser in, and the next
    address is printed then. Calls that ask wait until a tab answers; with --on-ask park those are parked that ask while
    no tab is open. Ctrl+C ends everything.
    """
    if host != HOST and not allow_remote:
        hint = "add --allow-remote if others may connect who know the address"
        raise UsageError(f"--host {host}: only this machine can reach {HOST}", hint=hint)
    interactive = is_interactive()
    offer_trust(options.workspace)
    path = (
        Path(find_trusted_worker(worker, interactive=interactive)).absolute()
        if worker is not None
        else ""
    )
    asked = options.chosen(str(path), worker or "")
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
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


class Serving:
    """The server and its sessions; what those need is loaded once the address is printed."""

    def __init__(self, asked: RunOptions, tasks: TaskGroup) -> None:
        self._asked = asked
        self._tasks = tasks
        self.sessions: WebSessions = import_module("forge_cli.apps.web.sessions").WebSessions(
            asked, tasks
        )
        self._stop = anyio.Event()
        self.reason: str | None = None

    def end(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.sessions.stop(reason)
        self._stop.set()

    def leave(self, end: ForcedEnd) -> int:
        """Third-party code holds the process: put everything in order without it."""
        for live in self.sessions.live.values():
            live.end_now(end)
        return say_fault(end) if end.fault else end.exit_code

    async def run(
        self,
        listener: socket.socket,
        access: PageAccess,
        open_page: Callable[[str], object] | None = None,
    ) -> None:
        """Serve until the end; then the sessions end first, the tabs after them."""

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
            if self.reason is None:
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
    """Serve until a signal comes."""
    async with anyio.create_task_group() as tasks:
        serving = Serving(asked, tasks)
        with interruptible(serving.end, leave=serving.leave):
            await serving.run(listener, access, open_page)
        tasks.cancel_scope.cancel()
    return Interrupted(serving.reason).exit_code
