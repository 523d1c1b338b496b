"""An authorisation server and an MCP server that obeys it, on this machine, in one app."""

import base64
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from .test_http import served


class Authority:
    """Registers clients, lets everyone agree, and exchanges codes and old tokens for tokens."""

    def __init__(self) -> None:
        self.base = ""
        self.grants: list[str] = []
        """What tokens were given for."""
        self.denies = False
        self.registers = True
        """Whether clients can register themselves."""
        self.known: dict[str, str] = {}
        """Clients that were registered by hand, with their secrets."""
        self.call_scope = ""
        """The right that calls need."""
        self.is_generous = True
        """Whether whoever asks for that right gets it."""
        self.asked_scopes: set[str] = set()
        self.access: set[str] = set()
        self.refresh: set[str] = set()
        self._clients: dict[str, list[str]] = {}
        self._codes: dict[str, dict[str, str]] = {}

    def app(self) -> Any:
        server = MCPServer("guarded")

        @server.tool()
        def count_words(text: str) -> int:
            """Count the words of a text."""
            return len(text.split())

        inner = server.streamable_http_app()
        pages = Starlette(
            routes=[
                Route("/.well-known/oauth-protected-resource/mcp", self._resource),
                Route("/.well-known/oauth-authorization-server/as", self._metadata),
                Route("/as/register", self._register, methods=["POST"]),
                Route("/as/authorize", self._authorize),
                Route("/as/token", self._token, methods=["POST"]),
            ]
        )

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] != "http" or scope["path"] != "/mcp":
                await (inner if scope["type"] == "lifespan" else pages)(scope, receive, send)
                return
            given = Request(scope).headers.get("authorization", "").removeprefix("Bearer ")
            if given in self.access:
                received = await receive()
                calls = b"tools/call" in received.get("body", b"")
                has_right = self.is_generous and self.call_scope in self.asked_scopes
                if calls and self.call_scope and not has_right:
                    challenge = f'Bearer error="insufficient_scope", scope="{self.call_scope}"'
                    refusal = PlainTextResponse("not you", 403, {"WWW-Authenticate": challenge})
                    await refusal(scope, receive, send)
                    return
                waiting = [received]

                async def replay() -> Any:
                    return waiting.pop() if waiting else await receive()

                await inner(scope, replay, send)
                return
            where = (
                f'Bearer resource_metadata="{self.base}/.well-known/oauth-protected-resource/mcp"'
            )
            await PlainTextResponse("who are you?", 401, {"WWW-Authenticate": where})(
                scope, receive, send
            )

        return app

    async def _resource(self, request: Request) -> Response:
        return JSONResponse(
            {"resource": f"{self.base}/mcp", "authorization_servers": [f"{self.base}/as"]}
        )

    async def _metadata(self, request: Request) -> Response:
        places = {f"{name}_endpoint": f"{self.base}/as/{path}" for name, path in PATHS.items()}
        supported = {
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
        return JSONResponse({"issuer": f"{self.base}/as", **places, **supported})

    async def _register(self, request: Request) -> Response:
        if not self.registers:
            return PlainTextResponse("<!DOCTYPE html><p>no such page</p>", 404)
        wanted = await request.json()
        client = secrets.token_hex(8)
        self._clients[client] = wanted["redirect_uris"]
        return JSONResponse({**wanted, "client_id": client}, 201)

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.asked_scopes.update(asked.get("scope", "").split())
        assert (
            asked["client_id"] in self.known
            or asked["redirect_uri"] in self._clients[asked["client_id"]]
        )
        assert urlsplit(asked["redirect_uri"]).hostname == "127.0.0.1"
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        assert asked["resource"] == f"{self.base}/mcp"
        code = secrets.token_hex(8)
        self._codes[code] = asked
        answer = (
            {"error": "access_denied", "error_description": "not today"}
            if self.denies
            else {"code": code}
        )
        return RedirectResponse(
            f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}", 302
        )

    async def _token(self, request: Request) -> Response:
        form = dict(await request.form())
        client = str(form.get("client_id", ""))
        if client not in self._clients and not self._is_known(request, client):
            return JSONResponse({"error": "invalid_client"}, 401)
        if form["grant_type"] == "client_credentials":
            self.asked_scopes.update(str(form.get("scope", "")).split())
            good = True
        elif form["grant_type"] == "refresh_token":
            good = form["refresh_token"] in self.refresh
            self.refresh.discard(str(form["refresh_token"]))
        else:
            asked = self._codes.pop(str(form["code"]), {})
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            good = (asked.get("code_challenge"), asked.get("client_id")) == (
                challenge,
                form["client_id"],
            )
        if not good:
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.grants.append(str(form["grant_type"]))
        access, refresh = secrets.token_hex(16), secrets.token_hex(16)
        self.access.add(access)
        self.refresh.add(refresh)
        given = {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": 3600,
        }
        return JSONResponse(given)

    def _is_known(self, request: Request, named: str) -> bool:
        """Whether the request shows the secret of a client that was registered by hand."""
        given = request.headers.get("authorization", "").removeprefix("Basic ")
        client, _, secret = base64.b64decode(given).decode().partition(":")
        return named in ("", client) and self.known.get(client) == secret


PATHS = {"authorization": "authorize", "token": "token", "registration": "register"}


@contextmanager
def authority() -> Iterator[Authority]:
    made = Authority()
    with served(made.app()) as url:
        made.base = url.removesuffix("/mcp")
        yield made
