"""``forge web``: a page on this machine, for conversations with workers."""

from __future__ import annotations

import os
import sys
import webbrowser
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.apps.web.access import PageAccess
from forge_cli.apps.web.serving import serve
from forge_cli.cli.ask_trust import offer_trust
from forge_cli.cli.options import new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.run_options import WorkOptions
from forge_cli.core.errors import UsageError
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.ui.http import open_socket

app = new_app()
HOST = "127.0.0.1"
REMOTE = """forge: everybody who can reach {host} and has the address may run what your workers may run,
  and others on the network can read along: there is no encryption
"""


@app.command()
def web(
    options: WorkOptions,
    worker: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER", help="Start this one: a name, a worker file, or a folder with one. The page lists others."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", metavar="N", help="Listen on this port; 0 finds a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Print the address, and open no browser.")] = False,
    host: Annotated[
        str, typer.Option("--host", metavar="H", help="Listen on another address; only with --allow-remote.")
    ] = HOST,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let others connect who know the address, unencrypted.")
    ] = False,
) -> None:
    """Talk with workers in a browser, and watch them there.

    The address is printed on standard error, with a secret in it: all who have it may use the page. Calls that ask wait
    until a tab answers; with --on-ask park those are parked that ask while no tab is open. Ctrl+C ends everything.
    """
    if host != HOST and not allow_remote:
        hint = "add --allow-remote if others may connect who know the address"
        raise UsageError(f"--host {host}: only this machine can reach {HOST}", hint=hint)
    interactive = is_interactive()
    offer_trust(options.workspace)
    asked = options.chosen(_find(worker, interactive) if worker is not None else "", worker or "")
    with open_socket(host, port) as listener, data_output():
        access = PageAccess(listener.getsockname()[1], host)
        if host != HOST:
            sys.stderr.write(REMOTE.format(host=host))
        sys.stderr.write(f"forge: {access.url}\n  Ctrl+C ends it\n")
        sys.stderr.flush()
        opens = not no_open and interactive and _has_display()
        code = in_loop(serve, asked, listener, access, webbrowser.open if opens else None)
    raise typer.Exit(code)


def _find(worker: str, interactive: bool) -> str:
    find = import_module("forge_cli.cli.find_worker").find_trusted_worker  # the page itself needs no worker
    return str(Path(find(worker, interactive=interactive)).absolute())


def _has_display() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
