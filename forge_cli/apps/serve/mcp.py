"""``forge serve mcp``: the tools of a worker, and the worker itself, for any client of the Model Context Protocol."""

from __future__ import annotations

import sys
from typing import Annotated, TextIO

import anyio
import typer

from forge_cli.apps.serve.protocol import McpRequests
from forge_cli.apps.serve.served import ServedWorker
from forge_cli.apps.serve.transports import HttpListener, Messages, serve_http
from forge_cli.cli.notices import warn
from forge_cli.cli.options import DirectoryOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.cli.run_options import LockedOption, ReadOnlyOption
from forge_cli.cli.tools.choose import tool_worker
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.errors import ExitCode
from forge_cli.core.interrupt import Interrupted
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.worker import Worker
from forge_cli.process.client_lines import is_lost, own_input
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.process.watchdog import say_fault
from forge_cli.record.changes import remove_session
from forge_cli.ui.warnings import warn_of_events

app = new_app()


@app.command()
def mcp(
    worker: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER",
            help="A name, a worker file, or a folder with one; without it, the tools that need no worker.",
        ),
    ] = None,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            help="Listen on this port of 127.0.0.1, for clients that know the token; 0 finds a free one.",
        ),
    ] = None,
    directory: DirectoryOption = None,
    read_only: ReadOnlyOption = False,
    locked: LockedOption = False,
) -> None:
    """Offer a worker's tools, and the worker itself, to MCP clients."""
    asked = RunOptions(workspace=work_folder(directory), read_only=read_only, locked=locked)
    served = tool_worker(worker)
    listener = HttpListener(http) if http is not None else None
    with data_output() as out:
        code = in_loop(_serve, asked, served, worker is not None, listener, out)
    raise typer.Exit(code)


async def _serve(
    asked: RunOptions, worker: Worker, named: bool, listener: HttpListener | None, out: TextIO
) -> ExitCode:
    stop, reasons = anyio.Event(), list[str]()

    def end(reason: str) -> None:
        reasons.append(reason)
        served.end(reason)
        stop.set()

    with asked.open(warn, worker=worker) as opened:
        served, session = ServedWorker(opened, takes_tasks=named), opened.session
        warn_of_events(served.bus)

        def leave(end: ForcedEnd) -> int:
            """Third-party code holds the process: put everything in order without it."""
            served.end_now(end)
            opened.close_log()
            return say_fault(end)

        with interruptible(end, leave=leave):
            async with served:
                requests = McpRequests(served, opened.host.renderer)
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(requests.watch_tools)
                    if listener is None:
                        await _serve_streams(requests, out, stop)
                    else:
                        _say_where(worker, listener)
                        await serve_http(requests.server(), listener, stop)
                    tasks.cancel_scope.cancel()
    if session.log and not served.made:  # clients start servers that they never use
        remove_session(session.log.path)
    return Interrupted(reasons[0]).exit_code if reasons else ExitCode.DONE


async def _serve_streams(requests: McpRequests, out: TextIO, stop: anyio.Event) -> None:
    """Serve one client until it closes its end, or until ``stop``."""
    server = requests.server()
    try:
        with own_input() as descriptor:
            async with Messages(descriptor, out).streams() as streams, anyio.create_task_group() as tasks:

                async def leave() -> None:
                    await stop.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(leave)
                await server.run(*streams, server.create_initialization_options())
                tasks.cancel_scope.cancel()
    except BaseException as error:
        if not is_lost(error):
            raise


def _say_where(worker: Worker, listener: HttpListener) -> None:
    sys.stderr.write(
        f"forge: {worker.name} is served at {listener.url}\n"
        f"  every request needs the header  Authorization: Bearer {listener.token}\n"
        f"  Ctrl+C ends it\n"
    )
    sys.stderr.flush()
