"""Servers that are reached under a URL: with their headers, and nowhere else.

Covers forge_cli.toolsets.mcp.transports.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer

from forge_cli.core.events import StatusEvent
from forge_cli.testing import Project, Seen, call, calls

SEEN: list[dict[str, str]] = []
"""The headers of every request, as the last server got them."""


def make_app() -> Any:
    server = MCPServer("counter")

    @server.tool()
    def count_words(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    inner = server.streamable_http_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            SEEN.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await inner(scope, receive, send)

    return app


def answering(status: int, location: str = "") -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = [(b"location", location.encode())] if location else []
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    return app


@contextmanager
def served(app: Any, lifespan: Any = "on", port: int = 0) -> Iterator[str]:
    """The URL of an app that answers in a thread."""
    with socket.create_server(("127.0.0.1", port)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan=lifespan))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            thread.join(10)


def worker(project: Project, url: str, more: str = "") -> None:
    server = f"{{url: {json.dumps(url)}{more}}}"
    approval = "{default: preApproved}"
    project.write(
        "worker.yaml",
        f"name: w\ntoolsets: {{mcp: {{servers: {{web: {server}}}, approval: {approval}}}}}\n",
    )


def count(project: Project) -> Seen:
    return project.run(calls(call("web__count_words", text="one two")), "done")


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


def test_call_sends_headers_from_the_environment(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCS_TOKEN", "of-the-person")
    with served(make_app()) as url:
        worker(project, url, ', headers: {Authorization: "Bearer ${DOCS_TOKEN}"}')
        seen = count(project)
    assert [json.loads(outcome.value.text()) for outcome in seen.outcomes] == [{"result": 2}]
    assert {headers.get("authorization") for headers in SEEN} == {"Bearer of-the-person"}


def test_redirect_to_another_server_is_not_followed(project: Project) -> None:
    with served(make_app()) as elsewhere, served(answering(307, elsewhere), lifespan="off") as url:
        worker(project, url, ", headers: {Authorization: secret}")
        assert count(project).statuses == ["not_found"]
    assert SEEN == []


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (
            401,
            "MCP server web rejects the Authorization in its headers\n  replace it in the definition",
        ),
        (403, "Server returned an error response; its last output: HTTP 403 Forbidden"),
        (500, "Server returned an error response; its last output: HTTP 500 Internal Server Error"),
    ],
)
def test_refusing_server_is_reported_with_its_reason(
    project: Project, status: int, problem: str
) -> None:
    with served(answering(status), lifespan="off") as url:
        worker(project, url, ", required: true, headers: {Authorization: Bearer expired}")
        project.write("script.yaml", "turns: [{text: done}]\n")
        done = project.forge("run", "worker.yaml", "go", "-m", "script:script.yaml", "-p")
    assert (done.returncode, problem in done.stderr) == (7, True), done.stderr


def test_unreachable_server_is_a_warning(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    worker(project, f"http://127.0.0.1:{port}/mcp", ", connect_timeout: 5")
    seen = count(project)
    assert seen.statuses == ["not_found"]
    assert [
        "MCP server web is not connected" in event.message for event in seen.of(StatusEvent)
    ] == [True]
