"""A batch with a real server that is busy or refuses requests.

Covers forge_cli.apps.batch.batch, forge_cli.engine.batch.local.
"""

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from forge_cli.testing import Project
from tests.support.batches import results, statuses, write_items

WORKER = "name: sorter\ninstructions: You sort things.\nmodel: openai:mock\n"


@dataclass
class Provider:
    """A server of the Chat Completions API; ``refuse`` gives the status of a request, by its number and its task."""

    refuse: Callable[[int, str], int | None]
    arrived: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    retry_after: str = "1"
    before: Callable[[int], object] = lambda number: None
    """What is done before a request is answered, by its number."""
    meanwhile: Callable[[int], object] = lambda number: None
    """The same, when its answer has begun."""

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        task = next(message["content"] for message in body["messages"] if message["role"] == "user")
        with self.lock:
            self.arrived.append(time.monotonic())
            number = len(self.arrived)
            status = self.refuse(number, task if isinstance(task, str) else task[0]["text"])
        time.sleep(0.02)  # as long as an answer takes
        self.before(number)
        if status:
            self.refused.append(time.monotonic())
            self._send(
                handler,
                status,
                json.dumps({"error": {"message": "no", "type": "x"}}),
                "application/json",
            )
            return
        chunks = [
            {"choices": [{"index": 0, "delta": {"content": "done"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}},
        ]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        first, rest = text[: text.index("\n\n") + 2], text[text.index("\n\n") + 2 :]
        self._send(handler, 200, first, "text/event-stream", length=len(text))
        self.meanwhile(number)
        handler.wfile.write(rest.encode())

    def _send(
        self,
        handler: http.server.BaseHTTPRequestHandler,
        status: int,
        text: str,
        kind: str,
        length: int | None = None,
    ) -> None:
        handler.send_response(status)
        headers = {"content-type": kind, "content-length": str(length or len(text.encode()))}
        for name, value in (
            headers | ({"retry-after": self.retry_after} if status == 429 else {})
        ).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text.encode())


@contextmanager
def serving(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            provider.answer(self)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Quiet(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 100

        def handle_error(self, *_: object) -> None:
            """A client that leaves is no news."""

    with Quiet(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-nobody-0123456789")
        yield
        server.shutdown()


@pytest.fixture(autouse=True)
def _worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("worker.yaml", WORKER)
    monkeypatch.setattr("forge_cli.apps.batch.batch.MAX_DELAY", 0.01)


def items(project: Project, number: int) -> None:
    write_items(project, {f"i{index}": "" for index in range(number)})


@pytest.mark.long
def test_busy_provider_is_not_asked_before_its_delay(cli, project: Project, monkeypatch) -> None:
    provider = Provider(lambda number, task: 429 if number in (6, 7) else None)
    items(project, 24)
    with serving(provider, monkeypatch):
        done = cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "4", "--retries", "0")
    assert (done.code, set(statuses(project).values()), len(results(project))) == (
        0,
        {"completed"},
        24,
    )
    assert len(provider.arrived) == 26
    told = provider.refused[0]
    under_way = 4  # those that had arrived, or were about to
    early = [moment for moment in provider.arrived if told < moment < told + 0.9]
    assert len(early) <= under_way
    assert sum(moment > told + 0.9 for moment in provider.arrived) >= 24 - 6 - under_way


@pytest.mark.long
def test_provider_with_a_very_long_delay_is_not_asked_before_it(
    cli, project: Project, monkeypatch
) -> None:
    monkeypatch.setattr("forge_cli.models.failures.MAX_RETRY_AFTER", 0.5)
    provider = Provider(lambda number, task: 429 if number == 1 else None)
    items(project, 6)
    with serving(provider, monkeypatch):
        done = cli("batch", "worker.yaml", "items.jsonl", "--retries", "0")
    assert (done.code, statuses(project)) == (0, {f"i{index}": "completed" for index in range(6)})
    assert len(provider.arrived) == 7
    assert min(provider.arrived[1:]) - provider.refused[0] >= 0.9


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "refused the key in OPENAI_API_KEY"),
        (403, "does not allow this with the key in OPENAI_API_KEY"),
        (404, "has no such model or path"),
    ],
)
def test_refused_key_or_model_ends_the_batch_at_once(
    cli, project: Project, monkeypatch, status: int, sentence: str
) -> None:
    provider = Provider(lambda number, task: status)
    items(project, 40)
    with serving(provider, monkeypatch):
        done = cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "8")
        assert (done.code, sentence in done.err) == (7, True)
        assert len(provider.arrived) <= 3
        provider.refuse = lambda number, task: None
        assert cli("batch", "worker.yaml", "items.jsonl").code == 0
    assert set(statuses(project).values()) == {"completed"}


def test_first_request_runs_alone_until_its_answer_begins(
    cli, project: Project, monkeypatch
) -> None:
    others, alone, accompanied = threading.Event(), list[int](), list[bool]()

    def before(number: int) -> None:
        if number > 1:
            others.set()
        else:
            time.sleep(0.2)  # the others would have come by now
            alone.append(len(provider.arrived))

    def meanwhile(number: int) -> None:
        if number == 1:
            accompanied.append(others.wait(10))

    provider = Provider(lambda number, task: None, before=before, meanwhile=meanwhile)
    items(project, 6)
    with serving(provider, monkeypatch):
        assert cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "3").code == 0
    assert (alone, accompanied, len(provider.arrived)) == ([1], [True], 6)


def test_refusal_of_one_item_stops_no_other(cli, project: Project, monkeypatch) -> None:
    provider = Provider(lambda number, task: 403 if task.startswith("i3") else None)
    items(project, 12)
    with serving(provider, monkeypatch):
        done = cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "1")
    assert done.code == 1
    assert {key for key, status in statuses(project).items() if status == "failed"} == {"i3"}
    assert len(provider.arrived) == 12  # it is not tried again


def test_key_revoked_during_the_batch_ends_it(cli, project: Project, monkeypatch) -> None:
    provider = Provider(lambda number, task: 401 if number > 5 else None)
    items(project, 60)
    with serving(provider, monkeypatch):
        done = cli("batch", "worker.yaml", "items.jsonl", "--concurrency", "2")
    assert (done.code, "refused the key" in done.err) == (7, True)
    assert len(provider.arrived) < 15
