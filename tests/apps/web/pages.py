"""A page server in the event loop of a test, and tabs with the state that the page would show."""

import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup

from forge_cli.apps.web.access import PageAccess
from forge_cli.apps.web.command import Serving
from forge_cli.core.approval import OnAsk
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.worker import Limits
from forge_cli.process.signals import in_loop
from forge_cli.testing import Project
from forge_cli.ui.http import open_socket

WAIT = 60.0
"""Seconds for anything that a test waits for."""
TOKEN = re.compile(r'<meta name="forge-token" content="([^"]+)">')
"""What the page finds that was opened by an address with a secret."""
Json = dict[str, Any]


async def eventually(found: Callable[[], Any]) -> Any:
    """Check repeatedly for something without an event; return it."""
    with anyio.fail_after(WAIT):
        while not (value := found()):  # noqa: ASYNC110
            await anyio.sleep(0.01)
    return value


@dataclass(eq=False)
class FakeTab:
    """The events that a tab received, and the state that it would show."""

    objects: list[Json] = field(default_factory=list)
    entries: dict[str, Json] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    """The last block of the answer that is being written, and what stands before it."""
    done: dict[str, str] = field(default_factory=dict)
    requests: dict[str, Json] = field(default_factory=dict)
    questions: dict[str, Json] = field(default_factory=dict)
    states: dict[str, Json] = field(default_factory=dict)
    last: str = "0"
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    news: anyio.Event = field(default_factory=anyio.Event)
    ended: bool = False

    def take(self, item: Json) -> None:
        self.objects.append(item)
        match item["type"]:
            case "entry":
                self.entries[item["key"]] = item
                self.texts.pop(item["key"], None)
            case "delta":
                self.texts[item["key"]] = item["rest"]
                self.done[item["key"]] = (
                    "" if item.get("whole") else self.done[item["key"]]
                ) + item["done"]
            case "void":
                self.texts.pop(item["key"], None)
            case "request":
                self.requests[item["request"]] = item
            case "decided":
                self.requests.pop(item["request"], None)
            case "question":
                self.questions[item["request"]] = item
            case "answered":
                self.questions.pop(item["request"], None)
            case kind:
                self.states[kind] = item

    @property
    def html(self) -> str:
        return "\n".join(entry["html"] for entry in self.entries.values())

    @property
    def status(self) -> str:
        return str(self.states.get("status", {}).get("state"))

    async def wait(self, found: Callable[["FakeTab"], Any]) -> Any:
        """Wait until a condition is true; return its value."""
        with anyio.fail_after(WAIT):
            while not (value := found(self)):
                self.news = anyio.Event()
                await self.news.wait()
        return value

    async def until(self, text: str) -> None:
        await self.wait(lambda tab: text in tab.html)

    async def request(self) -> Json:
        """The request that waits."""
        await self.wait(lambda tab: tab.requests)
        return next(iter(self.requests.values()))

    def types(self) -> list[str]:
        return [item["type"] for item in self.objects]


@dataclass
class Browser:
    """A user with the address of a server."""

    client: httpx2.AsyncClient
    serving: Serving
    access: PageAccess
    tasks: TaskGroup

    async def get(self, path: str, **options: Any) -> Any:
        answer = await self.client.get(path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: object | None = None, status: int = 200) -> Any:
        answer = await self.client.post(path, json=body or {})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def act(self, session: str, what: str, status: int = 200, **body: Any) -> Any:
        return await self.post(f"/api/sessions/{session}/{what}", body, status)

    async def start(self, worker: str = "tester") -> str:
        return str((await self.post("/api/sessions", {"worker": worker}))["id"])

    async def open(
        self, session: str, after: str | None = None, tab: FakeTab | None = None
    ) -> FakeTab:
        """Open a tab that has received all events so far."""
        tab = tab or FakeTab()
        tab.scope, tab.ended = anyio.CancelScope(), False
        tab.states.pop("ready", None)
        tab.texts.clear()
        self.tasks.start_soon(self._follow, session, after, tab)
        await tab.wait(lambda tab: "ready" in tab.states)
        return tab

    async def _follow(self, session: str, after: str | None, tab: FakeTab) -> None:
        headers = {"Last-Event-ID": after} if after else {}
        with tab.scope:
            async with self.client.stream(
                "GET", f"/api/sessions/{session}/events", headers=headers
            ) as answer:
                assert answer.status_code == 200
                try:
                    async for line in answer.aiter_lines():
                        name, _, value = line.partition(": ")
                        if name == "id":
                            tab.last = value
                        elif name == "data":
                            for item in json.loads(value):
                                tab.take(item)
                            tab.news.set()
                except httpx2.TransportError:
                    pass
        tab.ended = True
        tab.news.set()


@asynccontextmanager
async def serving_page(
    project: Project, worker: str = "", **options: Any
) -> AsyncIterator[Browser]:
    """A server on a port of its own; everything of it has ended when this is left."""
    given: dict[str, Any] = {
        "model": None,
        "mode": None,
        "on_ask": OnAsk.DENY,
        "limits": Limits(),
        **options,
    }
    path = str(project.folder / worker) if worker else ""
    work = RunOptions(
        worker=path, named=worker, workspace=project.folder, zones=(), plugins=True, **given
    )
    with open_socket("127.0.0.1", 0) as listener:
        access = PageAccess(listener.getsockname()[1])
        async with anyio.create_task_group() as tasks:
            serving = Serving(work, tasks)
            tasks.start_soon(serving.run, listener, access)
            base = f"http://127.0.0.1:{access.port}"
            limits = httpx2.Limits(max_connections=50)
            async with httpx2.AsyncClient(
                base_url=base, timeout=WAIT, limits=limits, trust_env=False
            ) as client:
                token = TOKEN.search((await client.get(access.url)).text)
                assert token
                client.headers["Authorization"] = f"Bearer {token[1]}"
                yield Browser(client, serving, access, tasks)
                serving.end("interrupted")
                await eventually(lambda: not (serving.sessions and serving.sessions.live))
            tasks.cancel_scope.cancel()


def play(
    project: Project,
    story: Callable[[Browser], Coroutine[Any, Any, Any]],
    worker: str = "",
    **options: Any,
) -> Any:
    """Run a story of a user with a page, and return its result."""

    async def work() -> Any:
        with anyio.fail_after(60):
            async with serving_page(project, worker, **options) as browser:
                return await story(browser)

    with project.environment():
        return in_loop(work)
