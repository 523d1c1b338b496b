"""``forge mcp login|logout``: OAuth logins to MCP servers, in a browser."""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs, urlsplit

import anyio
import typer
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.notices import innermost
from forge_cli.cli.options import new_app
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.files.home import forge_home
from forge_cli.files.mcp import McpOauth, McpServer
from forge_cli.files.mcp_project import trusted_server
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.named_servers import named_servers
from forge_cli.process.client_lines import read_lines
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.toolsets.mcp.connection import first_line
from forge_cli.toolsets.mcp.oauth import KeptTokens, McpTokens, expanded_oauth, oauth_provider
from forge_cli.toolsets.mcp.transports import silence_sdk
from forge_cli.ui.http import let_in, open_socket

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

HOST, PATH = "127.0.0.1", "/callback"
BY_HAND = (
    "register forge there, and add the client to the server's definition: oauth: {client_id: ...}"
)
# the SDK raises no class of its own for this, only a message with the server's whole response
_REFUSED = re.compile(r"Registration failed: (\d{3})\b")
DONE = "Login complete. You can close this page.\n"


Answer = dict[str, str]


@asynccontextmanager
async def listening() -> AsyncIterator[
    tuple[str, MemoryObjectSendStream[Answer], MemoryObjectReceiveStream[Answer]]
]:
    """Yield a local address for the browser's redirect, and a stream of what arrives there."""
    from starlette.responses import PlainTextResponse

    # unbounded: the server must not wait for a reader that has already got its answer
    send_answer, answers = anyio.create_memory_object_stream[Answer](math.inf)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        status = 404
        text = "not found\n"
        if scope["path"] == PATH:
            let_in(scope)
            send_answer.send_nowait(read_query(f"?{scope['query_string'].decode('latin-1')}"))
            status = 200
            text = DONE
        await PlainTextResponse(text, status)(scope, receive, send)

    with open_socket(HOST, 0) as listener:
        from forge_cli.ui.server import new_server

        server = new_server(answer)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listener])
            try:
                yield f"http://{HOST}:{listener.getsockname()[1]}{PATH}", send_answer, answers
            finally:
                server.should_exit = True


def read_query(address: str) -> Answer:
    """Return the parameters of an address, or of a query alone."""
    query = urlsplit(address).query or address
    return {name: values[0] for name, values in parse_qs(query).items()}


NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A server with a URL.")]
ServerWorkerOption = Annotated[
    str | None,
    typer.Option(
        "--worker",
        metavar="WORKER",
        help="The worker that defines the server, if your config does not.",
    ),
]


def find_server(name: str, worker: str | None) -> McpServer:
    """Return the definition of an HTTP server; local servers have no login."""
    if worker:
        named = named_servers(load_worker(find_trusted_worker(worker, interactive=False)))
    else:
        named = {name: None}
    own = load_settings(forge_home()).mcp.servers
    server = named.get(name)
    if server is None and name in named:
        server = own.get(name) or trusted_server(name, Path.cwd(), forge_home())
    if server is None:
        known = list(named if worker else own)
        hint = did_you_mean(
            name, known, "forge mcp add defines one, and --worker names a worker that has it"
        )
        raise UsageError(f"there is no MCP server '{visible(name)}'", hint=hint)
    if server.url is None:
        raise UsageError(f"the MCP server {name} is a local program, so it has no login")
    return server


LOGIN_TIMEOUT = 300.0
"""Seconds that a person has to log in."""

app = new_app()


class LoginError(ForgeError):
    """The error of a failed login."""

    exit_code = ExitCode.PROVIDER


@app.command()
def login(name: NameArgument, worker: ServerWorkerOption = None) -> None:
    """Log in to an MCP server, in a browser.

    The server's page opens in your browser and redirects to forge on this machine. Without a
    browser here, open the address elsewhere and paste the address that it ends at. The login is
    stored for you alone, and renewed.
    """
    server = find_server(name, worker)
    store = McpTokens(forge_home())
    oauth = expanded_oauth(server, None)
    url = str(server.url)
    if oauth.grant == "client_credentials":
        raise UsageError(
            f"the MCP server {name} needs no login: "
            f"forge asks for tokens as {visible(str(oauth.client_id))}"
        )
    # scopes that the server asked for when it refused a request
    if wanted := (store.find(url) or {}).get("wanted"):
        oauth = oauth.model_copy(update={"scopes": [*oauth.scopes, *str(wanted).split()]})
    entry = in_loop(log_in, url, oauth)
    if entry is None:
        sys.stdout.write(visible(f"{name} accepts requests without a login") + "\n")
        return
    store.put(url, entry)
    sys.stdout.write(visible(f"logged in to {name}; the login is stored in {store.file}") + "\n")


async def log_in(url: str, oauth: McpOauth) -> dict[str, Any] | None:
    """Return the answer of the authorisation server, or None if the server needs no login."""
    # the SDK is slow to import, and errors in the arguments do not need it
    import httpx2
    from mcp import Client
    from mcp.client.auth import OAuthRegistrationError
    from mcp.client.streamable_http import streamable_http_client

    silence_sdk()
    tokens = KeptTokens(None, lambda entry: None)
    try:
        with anyio.fail_after(LOGIN_TIMEOUT):
            async with listening() as (redirect_uri, pasted, answers):
                person = _Person(pasted, answers)
                auth = oauth_provider(
                    url,
                    tokens,
                    oauth,
                    redirect_uri=redirect_uri,
                    show=person.show,
                    wait=person.wait,
                )
                async with (
                    httpx2.AsyncClient(auth=auth, timeout=30) as http,
                    Client(streamable_http_client(url, http_client=http)),
                ):
                    pass  # the SDK logs in while it connects
    except TimeoutError:
        raise LoginError(f"no login within {LOGIN_TIMEOUT / 60:g} minutes") from None
    except Exception as error:  # anything the SDK, or a server it talks to, raises
        if isinstance(inner := innermost(error), ForgeError):
            raise inner from None
        if isinstance(inner, OAuthRegistrationError) and (refused := _REFUSED.match(str(inner))):
            status = f"(HTTP {refused[1]})"
            problem = f"{visible(url)}: its authorization server does not register clients {status}"
            raise LoginError(problem, hint=BY_HAND) from None
        raise LoginError(f"{visible(url)}: the login failed: {first_line(error)}") from None
    return tokens.entry if "tokens" in tokens.entry else None


class _Person:
    """The user's side of a login: the browser, or an address that is pasted."""

    def __init__(
        self, pasted: MemoryObjectSendStream[Answer], answers: MemoryObjectReceiveStream[Answer]
    ) -> None:
        self._pasted = pasted
        self._answers = answers
        self._state = ""

    async def show(self, page: str) -> None:
        self._state = read_query(page).get("state", "")
        has_display = sys.platform == "darwin" or any(
            map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
        )
        sys.stderr.write(f"forge: open this page to log in:\n  {visible(page)}\n")
        if is_interactive():
            sys.stderr.write(
                "Without a browser here, open it elsewhere, then paste the final address:\n"
            )
        elif not has_display:
            raise LoginError(
                "neither a browser nor a terminal is available", hint="run it in a terminal"
            )
        sys.stderr.flush()
        if has_display:  # in a thread, because webbrowser waits for some browsers to close
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    async def wait(self) -> AuthorizationCodeResult:
        from mcp.shared.auth import AuthorizationCodeResult

        async with anyio.create_task_group() as tasks:
            if is_interactive():
                tasks.start_soon(self._read_pasted)
            async for answer in self._answers:
                # any web page can open the redirect address, but only the server knows the state
                if answer.get("state") != self._state:
                    continue
                tasks.cancel_scope.cancel()
                if "code" not in answer:
                    why = (
                        answer.get("error_description")
                        or answer.get("error")
                        or "the server returned no code"
                    )
                    raise LoginError(f"the server refused: {visible(why)}")
                return AuthorizationCodeResult(
                    code=answer["code"], state=answer["state"], iss=answer.get("iss")
                )
        raise LoginError("the server returned nothing")

    async def _read_pasted(self) -> None:
        """Read a pasted address, or the code in it."""
        async for line in read_lines(0):
            if text := line.decode("utf-8", "replace").strip():
                if "=" in text:
                    answer = read_query(text)
                else:
                    answer = {"code": text, "state": self._state}
                self._pasted.send_nowait(answer)


@app.command()
def logout(name: NameArgument, worker: ServerWorkerOption = None) -> None:
    """Delete the login to an MCP server, without asking."""
    known = McpTokens(forge_home()).put(str(find_server(name, worker).url), None)
    told = f"logged out of {name}" if known else f"not logged in to {name}"
    sys.stdout.write(visible(told) + "\n")
