"""Real servers on this machine, and an internet of a few names whose public addresses lead to them."""

import os
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest
from forge_tools_web.toolset import WebToolset

from forge_cli.testing import Project, Seen, call, calls

Answer = tuple[int, dict[str, str], bytes] | Callable[[BaseHTTPRequestHandler], None]

ARTICLE = """<!doctype html><html><head><title>Tide tables [2026]</title></head><body>
<nav><a href="/">Home</a> <a href="/about">About us</a></nav>
<article><h1>How tides work</h1>
<p>The sea rises and falls <b>twice a day</b>, as <a href="/moon">the moon</a> pulls on it from far away.</p>
<pre><code>height = mean + range * cos(t)
</code></pre>
<table><tr><th>port</th><th>range</th></tr><tr><td>Brest</td><td>6 m</td></tr></table>
<script>document.write("never seen")</script>
<p>Whoever sails along a coast has to know the tides of the places that lie ahead.</p>
</article><footer>imprint</footer></body></html>"""


@dataclass
class Site:
    """A server with pages by path; ``seen`` are the requests that came, with their Host."""

    server: ThreadingHTTPServer
    scheme: str = "http"
    pages: dict[str, Answer] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    headers: list[Any] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.server_address[1]

    def html(self, path: str, text: str = ARTICLE) -> None:
        self.send(path, text.encode(), "text/html; charset=utf-8")

    def send(
        self, path: str, body: bytes, content_type: str | None, status: int = 200, **headers: str
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = (
            status,
            {**({"Content-Type": content_type} if content_type else {}), **named},
            body,
        )

    def redirect(self, path: str, to: str, status: int = 302) -> None:
        self.send(path, b"", None, status, Location=to)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"


def serve(site: Site, handler: BaseHTTPRequestHandler) -> None:
    site.seen.append(f"{handler.headers['Host']} {handler.path}")
    site.headers.append(handler.headers)
    answer = site.pages.get(handler.path.partition("?")[0], (404, {}, b"nothing here"))
    if callable(answer):
        answer(handler)
        return
    status, headers, body = answer
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def make_site() -> Iterator[Callable[..., Site]]:
    servers: list[ThreadingHTTPServer] = []

    def make(tls: ssl.SSLContext | None = None) -> Site:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    serve(site, self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                """Keep the output of the tests quiet."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.handle_error = lambda *args: None  # type: ignore[method-assign]
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        site = Site(server, "https" if tls else "http")
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return site

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


@dataclass
class Internet:
    """The answers of name lookups, in order, and public addresses that lead to 127.0.0.1."""

    names: dict[str, list[Sequence[str]]] = field(default_factory=dict)
    public: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)

    def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answers = self.names.get(host)
        if not answers:
            raise OSError(f"no such name: {host}")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> Internet:
    net, connect = Internet(), anyio.connect_tcp

    async def resolve(self: WebToolset, host: str, port: int) -> Sequence[str]:
        return net.resolve(host)

    async def connect_tcp(remote_host: str, remote_port: int, **options: Any) -> Any:
        net.connected.append(remote_host)
        if remote_host in net.public:
            remote_host = "127.0.0.1"
        elif not remote_host.startswith("127."):
            raise OSError("unreachable")
        return await connect(remote_host, remote_port, **options)

    monkeypatch.setattr(WebToolset, "resolve", resolve)
    monkeypatch.setattr(anyio, "connect_tcp", connect_tcp)
    return net


@pytest.fixture(autouse=True)
def _own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name in {"CI", "NO_COLOR", "FORCE_COLOR"} or name.startswith("FORGE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


@dataclass
class Worker:
    """A worker with the toolset web, every call of which is approved beforehand unless ``approval`` says more."""

    project: Project

    def write(self, settings: str = "") -> None:
        approval = "approval: {default: preApproved}"
        section = ", ".join(
            filter(None, [approval if "approval:" not in settings else "", settings])
        )
        self.project.write(
            "worker.yaml",
            f"name: surfer\ninstructions: Look it up.\ntoolsets:\n  web: {{{section}}}\n",
        )

    def seen(self, *made: Any, settings: str = "", **options: Any) -> Seen:
        self.write(settings)
        return self.project.run(calls(*made), "done", **options)

    def fetch(self, url: str, settings: str = "", **options: Any) -> Any:
        """The one outcome of web_fetch."""
        (outcome,) = self.seen(call("web_fetch", url=url), settings=settings, **options).outcomes
        return outcome


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    (tmp_path / "project").mkdir()
    return Worker(Project(tmp_path / "project"))
