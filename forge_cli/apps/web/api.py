"""The routes of the page: its files, and the API of sessions with JSON answers and streams."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route, Router

from forge_cli import __version__
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.messages import Attachment
from forge_cli.core.wire import JsonObject
from forge_cli.files.attachment import LARGEST, media_type
from forge_cli.process.stdin import MAX_TASK_BYTES
from forge_cli.record.places import SessionBusy
from forge_cli.sandbox.secrets import own_redactor

if TYPE_CHECKING:
    from forge_cli.apps.web.sessions import WebSessions

Handler = Callable[[Request], Awaitable[Any]]
MIN_COLUMNS = 30
MAX_COLUMNS = 100
"""Limits for the width of command output."""
STATIC = Path(__file__).parent / "static"
CODE_COLOURS = Path(__file__).parents[2] / "ui" / "html" / "pygments.css"
"""The style sheet of code, also used in exported sessions."""
MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
MAX_BODY = 256 * 2**20
"""Bytes of a request body, including attachments."""
NOT_FOUND = {"error": "not found"}


class PageRoutes:
    """Handlers of authenticated requests."""

    def __init__(self, sessions: WebSessions) -> None:
        self._sessions = sessions

    def router(self) -> Router:
        """Return the routes of the page and its API."""
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/api/state", self.state),
            ("GET", "/api/models", lambda _: self._sessions.models()),
            (
                "GET",
                "/api/sessions",
                lambda request: self._sessions.listing(request.query_params.get("search", "")),
            ),
            ("POST", "/api/sessions", self.start),
            ("POST", "/api/sessions/{id}/resume", self.resume),
            ("POST", "/api/sessions/{id}/fork", self.fork),
            ("POST", "/api/sessions/{id}/close", self.close),
            ("GET", "/api/sessions/{id}/export", self.export),
            (
                "GET",
                "/api/sessions/{id}/verify",
                lambda request: self._sessions.verify(_id(request)),
            ),
            ("POST", "/api/sessions/{id}/input", self.say),
            ("POST", "/api/sessions/{id}/answer", self.answer),
            ("POST", "/api/sessions/{id}/reply", self.reply),
            ("POST", "/api/sessions/{id}/invoke", self.invoke),
            ("GET", "/api/sessions/{id}/complete", self.complete),
            ("POST", "/api/sessions/{id}/retry", self.retry),
            ("POST", "/api/sessions/{id}/interrupt", self.interrupt),
            ("GET", "/api/sessions/{id}/events", self.events),
            ("GET", "/api/inbox", lambda _: self._sessions.inbox()),
            ("POST", "/api/inbox/{id}/{request}", self.answer_parked),
        ]
        routes = [
            Route("/", _page, methods=["GET"]),
            Route("/static/{name}", _page, methods=["GET"]),
        ]
        for method, path, handler in table:
            routes.append(Route(path, _answering(handler), methods=[method]))
        return Router(routes, default=_not_found, redirect_slashes=False)

    async def state(self, request: Request) -> Any:
        return {"version": __version__, **await self._sessions.state()}

    async def start(self, request: Request) -> Any:
        body = await _body(request)
        return {"id": await self._sessions.start(_text(body, "worker"), _text(body, "model"))}

    async def resume(self, request: Request) -> Any:
        return {"id": await self._sessions.resume(_id(request))}

    async def fork(self, request: Request) -> Any:
        return {"id": await self._sessions.resume(_id(request), fork=True)}

    async def close(self, request: Request) -> Any:
        await self._sessions.close(_id(request))
        return {}

    async def export(self, request: Request) -> Any:
        text, kind, name = await self._sessions.export(
            _id(request), request.query_params.get("format", "html")
        )
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(text.encode("utf-8", "replace"), media_type=kind, headers=headers)

    async def say(self, request: Request) -> Any:
        body = await _body(request)
        columns = body.get("columns")
        width = MAX_COLUMNS
        if isinstance(columns, int):
            width = min(max(columns, MIN_COLUMNS), MAX_COLUMNS)
        text = _text(body, "text")
        if len(text.encode("utf-8", "replace")) > MAX_TASK_BYTES:
            sentence = f"the message has more than {MAX_TASK_BYTES} bytes, the maximum"
            hint = "write it to a file that the worker can read, and name the file in the message"
            raise UsageError(sentence, hint=hint)
        attachments = _attachments(body.get("attachments") or [])
        return await self._live(request).enter(text, attachments, width)

    async def complete(self, request: Request) -> Any:
        return self._live(request).complete(request.query_params.get("text", ""))

    async def answer(self, request: Request) -> Any:
        body = await _body(request)
        feedback = _text(body, "feedback")
        self._live(request).answer(_text(body, "request"), _text(body, "choice"), feedback)
        return {}

    async def reply(self, request: Request) -> Any:
        body = await _body(request)
        if body.get("content") is None:
            content = None
        else:
            content = _text(body, "content")
        self._live(request).reply(_text(body, "request"), content)
        return {}

    async def invoke(self, request: Request) -> Any:
        body = await _body(request)
        args = body.get("input") or {}
        if not isinstance(args, dict):
            raise UsageError("'input' must be an object")
        self._live(request).invoke(_text(body, "tool"), args)
        return {}

    async def retry(self, request: Request) -> Any:
        self._live(request).retry()
        return {}

    async def interrupt(self, request: Request) -> Any:
        return self._live(request).interrupt()

    async def answer_parked(self, request: Request) -> Any:
        body = await _body(request)
        wanted = str(request.path_params["request"])
        await self._sessions.answer_parked(
            _id(request), wanted, _text(body, "choice"), _text(body, "feedback")
        )
        return {}

    async def events(self, request: Request) -> Any:
        """Return the event stream of a session, beginning after the last line that the tab has."""
        # A browser sends the header when it reconnects; a new tab uses the parameter.
        given = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        view = await self._sessions.look(_id(request))
        return view.stream(int(given) if given.isdecimal() else 0, self._sessions.keep_up)

    def _live(self, request: Request) -> Any:
        return self._sessions.find_live(_id(request))


def _answering(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            answered = await handler(request)
        except ForgeError as error:
            return _refusal(error)
        if isinstance(answered, Response):
            return answered
        return JSONResponse(answered)

    return answer


def _refusal(error: ForgeError) -> JSONResponse:
    """Return an error of forge as a response."""
    content: JsonObject = {"error": own_redactor().redact_text(str(error))}
    status = 409 if isinstance(error, SessionBusy) else 400
    if (fields := getattr(error, "fields", None)) is not None:
        status = 422
        content = {**content, "fields": fields}
    if (by := getattr(error, "by", None)) is not None:
        status = 409
        content = {**content, "by": by}
    return JSONResponse(content, status)


async def _page(request: Request) -> Response:
    """Return a file of the page."""
    # A list of known names instead of a path: no request can reach another file.
    known = {path.name: path for path in (*STATIC.iterdir(), CODE_COLOURS)}
    path = known.get(str(request.path_params.get("name", "index.html")))
    if path is None or path.suffix not in MEDIA_TYPES:
        return JSONResponse(NOT_FOUND, 404)
    content = path.read_bytes()
    if token := getattr(request.state, "token", None):  # set by AccessGate after an exchange
        meta = b'<meta name="forge-token" content="%b">\n' % token.encode()
        content = content.replace(b"</head>", meta + b"</head>")
    return Response(content, media_type=MEDIA_TYPES[path.suffix])


async def _not_found(scope: Any, receive: Any, send: Any) -> None:
    """Answer an unknown path; browsers are redirected to the page, which reports it."""
    request = Request(scope)
    if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
        await RedirectResponse(f"/#{quote(request.url.path)}", 303)(scope, receive, send)
    else:
        await JSONResponse(NOT_FOUND, 404)(scope, receive, send)


async def _body(request: Request) -> JsonObject:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MAX_BODY:
            limit = f"{MAX_BODY >> 20} MiB"
            raise UsageError(f"the request has more than {limit}, including attachments")
    try:
        body = json.loads(bytes(data)) if data.strip() else {}
    except (ValueError, RecursionError):
        raise UsageError("the request body is not JSON") from None
    if not isinstance(body, dict):
        raise UsageError("the request body is not a JSON object")
    return body


def _id(request: Request) -> str:
    return str(request.path_params["id"])


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name, "")
    if not isinstance(value, str):
        raise UsageError(f"'{name}' must be a text")
    return value


def _attachments(given: Any) -> tuple[Attachment, ...]:
    """Return the attachments of a message, with media types detected from the content."""
    found = []
    for each in given if isinstance(given, list) else ():
        name = each.get("name") if isinstance(each, dict) else None
        data = each.get("data") if isinstance(each, dict) else None
        if not isinstance(name, str) or not isinstance(data, str):
            raise UsageError("an attachment needs the texts 'name' and 'data'")
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise UsageError(f"{name}: the data is not base64") from None
        if len(content) > LARGEST:
            problem = f"{len(content)} bytes; an attachment has at most {LARGEST}"
            raise UsageError(f"{name}: {problem}")
        found.append(Attachment(name.rpartition("/")[2] or "file", media_type(content), content))
    return tuple(found)
