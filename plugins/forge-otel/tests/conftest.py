"""A local collector for the telemetry of real forge processes, and their project."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from forge_cli.testing import Project

MODEL = """
from forge_cli import hookimpl
from forge_cli.events import ToolCall, Usage
from forge_cli.hooks import ModelFactory, TextDelta, TurnEnd

CALLS = {"boss": [("echo", {"text": "SESAME"}), ("helper", {"input": "Help with the OPAL."})],
         "helper": [("rm", {"path": "x"}), ("ask_me", {})]}

class Counting:
    context_window = None
    def __init__(self, name):
        self.name, self.worker = f"counting:{name}", name
    async def stream(self, request):
        turns = sum(message.role == "assistant" for message in request.messages)
        calls = CALLS.get(self.worker, []) if turns == 0 else []
        for number, (tool, args) in enumerate(calls, 1):
            yield ToolCall(f"{self.worker}_{number}", tool, args)
        if not calls:
            yield TextDelta("The answer is RUBY.")
        yield TurnEnd("tool_use" if calls else "end", Usage(10, 5, 3, 2))
    async def aclose(self): pass

@hookimpl
def forge_models():
    return [ModelFactory("counting", lambda name, env: Counting(name))]
"""
TOOLS = '''
from forge_cli import tool

@tool(needs_approval=False, effects=[])
def echo(text: str) -> str:
    """Say it again."""
    return text

@tool(needs_approval=False)
def rm(path: str) -> str:
    """Remove it."""
    return "gone"

@tool(needs_approval=True)
def ask_me() -> str:
    """Ask first."""
    return "asked"
'''
BOSS = """
name: boss
plugins: [./counting.py]
model: counting:boss
toolsets:
  custom: {module: ./tools.py, tools: [echo]}
  workers: {allowed: [./helper.yaml], approval: {default: preApproved}}
"""
HELPER = """
name: helper
plugins: [./counting.py]
model: counting:helper
toolsets:
  custom: {module: ./tools.py, tools: [rm, ask_me], approval: {tools: {rm: blocked}}}
"""
CONFIG = """
hooks: [{on: record, observer: otel}]
models: {"counting:boss": {price: {input: 1000000, output: 1000000, cache_read: 0, cache_write: 0}}}
"""


@dataclass
class Collector:
    """Received data: spans by name, and the last value of each counter by name and some attributes."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    points: dict[tuple[str, str], float] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    resource: dict[str, Any] = field(default_factory=dict)
    came: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        self.bodies.append(body)
        self.headers.append(headers)
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resource = attributes(group.resource)
                self.spans += [span for scope in group.scope_spans for span in scope.spans]
            self.came.set()
        else:
            for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (
                    metric for scope in metrics.scope_metrics for metric in scope.metrics
                ):
                    for point in metric.sum.data_points:
                        told = attributes(point)
                        kind = told.get("gen_ai.token.type") or told.get("gen_ai.tool.name") or ""
                        who = f"{told.get('gen_ai.agent.name', '')} {kind}".strip()
                        self.points[metric.name, who] = point.as_int or point.as_double

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def tree(self) -> dict[str, str]:
        """The name of each span's parent, by its own name."""
        names = {span.span_id: span.name for span in self.spans}
        return {span.name: names.get(span.parent_span_id, "") for span in self.spans}

    def decisions(self) -> dict[str, dict[str, Any]]:
        """Decisions by span."""
        return {span.name: attributes(event) for span in self.spans for event in span.events}


def attributes(carrier: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in carrier.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def listening(collector: Collector, answer: Callable[[], int] = lambda: 200) -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = answer()
            if status == 200:
                collector.take(
                    self.path, body, {key.lower(): value for key, value in self.headers.items()}
                )
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        collector.url = f"http://127.0.0.1:{server.server_port}"
        yield collector
        server.shutdown()
        thread.join(30)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with listening(Collector()) as made:
        yield made


def make_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A worker with a child, in a home whose config turns telemetry on."""
    for name in ("CI", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    project = Project(folder / "work")
    for name, text in {
        "counting.py": MODEL,
        "tools.py": TOOLS,
        "boss.yaml": BOSS,
        "helper.yaml": HELPER,
    }.items():
        project.write(name, text)
    project.home.mkdir()
    (project.home / "config.yaml").write_text(CONFIG)
    return project


@pytest.fixture
def observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    return make_project(tmp_path, monkeypatch)
