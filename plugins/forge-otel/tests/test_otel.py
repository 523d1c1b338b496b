"""Telemetry of real forge processes (run, chat, batch and serve), and data that is never sent."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import anyio
import pytest
from forge_otel import observe
from forge_otel.delivery import FLUSH_LIMIT, Delivery
from forge_otel.telemetry import Telemetry
from mcp import Client, StdioServerParameters

from forge_cli.hooks import HookCall
from forge_cli.testing import Project

from .conftest import Collector, attributes, listening, make_project

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ERROR = 2
PLAIN = "name: plain\nplugins: [./counting.py]\nmodel: counting:plain\n"


def settings(collector: Collector, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **more}


def run(project: Project, env: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    return project.forge("run", "boss.yaml", "Find the PEARL.", "-p", *more, env=env)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, str]]:
    """The data that a collector received from one run, and the ID of its session."""
    with pytest.MonkeyPatch.context() as patch, listening(Collector()) as collector:
        project = make_project(tmp_path_factory.mktemp("ran"), patch)
        env = settings(
            collector,
            OTEL_RESOURCE_ATTRIBUTES="team=desk",
            OTEL_EXPORTER_OTLP_HEADERS="x-tenant=one",
        )
        done = run(project, env)
        assert (done.returncode, done.stdout, done.stderr) == (0, "The answer is RUBY.\n", "")
        (log,) = project.home.glob("sessions/*.jsonl")
        yield collector, log.stem


def test_run_has_its_spans(ran: tuple[Collector, str]) -> None:
    collector, session = ran
    assert collector.tree() == {
        "invoke_agent boss": "",
        "chat boss": "invoke_agent boss",
        "execute_tool echo": "invoke_agent boss",
        "execute_tool helper": "invoke_agent boss",
        "invoke_agent helper": "execute_tool helper",
        "chat helper": "invoke_agent helper",
        "execute_tool rm": "invoke_agent helper",
        "execute_tool ask_me": "invoke_agent helper",
    }
    assert len({span.trace_id for span in collector.spans}) == 1
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.spans)
    assert (collector.resource["service.name"], collector.resource["team"]) == ("forge", "desk")
    assert {headers["x-tenant"] for headers in collector.headers} == {"one"}

    (agent,), (chat, last) = collector.named("invoke_agent boss"), collector.named("chat boss")
    common = {
        "gen_ai.agent.name": "boss",
        "gen_ai.provider.name": "counting",
        "gen_ai.request.model": "boss",
        "gen_ai.conversation.id": session,
    }
    tokens = {"gen_ai.usage.input_tokens": 15, "gen_ai.usage.output_tokens": 5}
    tokens |= {
        "gen_ai.usage.cache_read.input_tokens": 3,
        "gen_ai.usage.cache_creation.input_tokens": 2,
    }
    assert attributes(chat) == {
        "gen_ai.operation.name": "chat",
        **common,
        **tokens,
        "gen_ai.response.finish_reasons": ["tool_use"],
        "forge.cost": 15.0,
    }
    assert attributes(last)["gen_ai.response.finish_reasons"] == ["end"]
    assert attributes(agent) == {
        "gen_ai.operation.name": "invoke_agent",
        **common,
        **{key: 2 * count for key, count in tokens.items()},
        "forge.status": "completed",
    }
    (echo,), (rm,) = collector.named("execute_tool echo"), collector.named("execute_tool rm")
    assert attributes(echo) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "boss",
        "gen_ai.conversation.id": session,
        "gen_ai.tool.name": "echo",
        "gen_ai.tool.call.id": "boss_1",
        "gen_ai.tool.type": "function",
        "forge.status": "success",
    }
    assert (rm.status.code, attributes(rm)["error.type"]) == (ERROR, "blocked")


def test_every_decision_is_an_event_and_questions_and_tokens_are_counted(
    ran: tuple[Collector, str],
) -> None:
    collector, _ = ran
    told = collector.decisions()
    assert told.keys() == {f"execute_tool {name}" for name in ("echo", "helper", "rm", "ask_me")}
    rm, asked = told["execute_tool rm"], told["execute_tool ask_me"]
    assert (rm["forge.verdict"], rm["forge.approved"], rm["forge.by"]) == ("blocked", False, "rule")
    assert rm["forge.rule"] == "toolsets.custom.approval.tools.rm"
    assert rm["forge.where"].endswith("helper.yaml:6:76")
    assert (asked["forge.verdict"], asked["forge.approved"], asked["forge.by"]) == (
        "ask",
        False,
        "headless",
    )
    prints = [decision["forge.fingerprint"] for decision in told.values()]
    assert len(set(prints)) == 4
    assert all(len(each) == 64 for each in prints)
    assert collector.points == {
        **{
            ("forge.tokens", f"{who} {kind}"): count * 2.0
            for who in ("boss", "helper")
            for kind, count in KINDS.items()
        },
        ("forge.cost", "boss"): 30.0,
        ("forge.questions", "helper ask_me"): 1.0,
        ("forge.lost_spans", ""): 0.0,
    }


KINDS = {"input": 10, "output": 5, "cache_read": 3, "cache_creation": 2}


def test_content_is_sent_only_on_request_and_without_secrets(
    ran: tuple[Collector, str], observed: Project, collector: Collector
) -> None:
    words = [b"PEARL", b"SESAME", b"OPAL", b"RUBY"]
    assert [word for word in words if any(word in body for body in ran[0].bodies)] == []

    tools = (observed.folder / "tools.py").read_text().replace("return text", "return text + KEY")
    observed.write("tools.py", f"import os\nKEY = os.environ['SOME_API_KEY']\n{tools}")
    secret = {"SOME_API_KEY": "zx81-very-secret-0815"}
    run(observed, settings(collector, **secret, **{CONTENT: "true"}))
    assert [word for word in words if not any(word in body for body in collector.bodies)] == []
    assert not any(b"very-secret" in body for body in collector.bodies)
    chat, last = collector.named("chat boss")
    assert json.loads(attributes(chat)["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Find the PEARL."}]}
    ]
    (answer,) = json.loads(attributes(last)["gen_ai.output.messages"])
    assert answer == {
        "role": "assistant",
        "parts": [{"type": "text", "content": "The answer is RUBY."}],
    }
    (echo,) = collector.named("execute_tool echo")
    assert json.loads(attributes(echo)["gen_ai.tool.call.arguments"]) == {"text": "SESAME"}
    assert "SESAME[redacted:SOME_API_KEY]" in attributes(echo)["gen_ai.tool.call.result"]


def exit_delay(stdout: str, ended: float) -> float:
    """Seconds from the end of the session to the end of its process."""
    last = json.loads(stdout.splitlines()[-1])
    assert last["type"] == "sessionEnd"
    return ended - datetime.fromisoformat(last["time"]).timestamp()


@pytest.mark.few(1)
@pytest.mark.parametrize("state", ["down", "500", "503", "hangs"])
def test_unreachable_collector_does_not_delay_a_run(observed: Project, state: str) -> None:
    hanging: Any = lambda: time.sleep(60) or 200  # noqa: E731
    with listening(
        Collector(), {"hangs": hanging, "500": lambda: 500, "503": lambda: 503}.get(state, hanging)
    ) as made:
        url = "http://127.0.0.1:9" if state == "down" else made.url
        done = run(observed, {"OTEL_EXPORTER_OTLP_ENDPOINT": url}, "--output-format", "stream-json")
        ended = time.time()
    assert done.returncode == 0
    assert (
        exit_delay(done.stdout, ended) < FLUSH_LIMIT + 5
    )  # OpenTelemetry itself would try for 10 seconds
    said = {
        "down": "it cannot be reached",
        "hangs": "it was too slow",
        "500": "it answered 500 Internal Server Error",
    }
    why = said.get(state, "it answered 503 Service Unavailable")
    assert done.stderr == f"forge-otel: 10 of 10 spans did not reach {url}/v1/traces: {why}\n"


def lines(calls: int) -> list[dict[str, Any]]:
    """A session of calls that a client makes."""
    common = {"time": "2026-11-15T09:30:00.107Z", "session": "s", "worker": "w"}
    made = [{**common, "type": "sessionStart", "model": "MCP clients"}]
    for number in range(calls):
        call = {**common, "toolCallId": str(number), "toolName": "look"}
        made.append({**call, "type": "toolStarted", "args": {}})
        made.append(
            {
                **call,
                "type": "toolResult",
                "status": "success",
                "value": {"kind": "text", "content": ""},
            }
        )
    return [*made, {**common, "type": "sessionEnd", "result": {"status": "completed"}}]


def test_spans_dropped_by_a_full_queue_are_counted_without_waiting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def answer() -> int:
        begun.set()
        return 200 if goes_on.wait(60) else 500

    with listening(Collector(), answer) as collector:
        for name, value in settings(
            collector, OTEL_BSP_MAX_QUEUE_SIZE="2", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1"
        ).items():
            monkeypatch.setenv(name, value)
        delivery = Delivery()
        telemetry = Telemetry(delivery, content=False)
        first, *rest = lines(100)
        said = [telemetry.take(line) for line in (first, *rest[:2])]
        assert begun.wait(30)
        said += [
            telemetry.take(line) for line in rest[2:]
        ]  # although nothing more is taken from the queue
        assert delivery.lost() == 97
        goes_on.set()
        telemetry.close()
        assert delivery.lost() == 100 - len(collector.spans) == 97
    sentences = [sentence for sentence in said if sentence]
    assert sentences == [f"1 of 4 spans did not reach {collector.url}/v1/traces: it was too slow"]
    assert capsys.readouterr().err == ""


def test_refused_export_is_reported_once_while_the_session_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with listening(Collector(), lambda: 500) as collector:
        for name, value in settings(collector, OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1").items():
            monkeypatch.setenv(name, value)
        delivery = Delivery()
        telemetry = Telemetry(delivery, content=False)
        first, *rest = lines(3)
        said = [telemetry.take(line) for line in (first, *rest[:2])]
        until = time.monotonic() + 30
        while not delivery.failed and time.monotonic() < until:
            time.sleep(0.01)
        said += [telemetry.take(line) for line in rest[2:]]
        telemetry.close()
    sentences = [sentence for sentence in said if sentence]
    assert sentences == [
        f"1 of 1 spans did not reach {collector.url}/v1/traces: it answered 500 Internal Server Error"
    ]
    assert capsys.readouterr().err == ""


def test_disabling_or_unsupported_variables_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    told = HookCall(event="record", session="s", worker="w", line=lines(0)[0])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(
        ValueError, match="OTEL_EXPORTER_OTLP_PROTOCOL is grpc, but only http/protobuf is supported"
    ):
        observe(told)
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert observe(told) is None


def test_each_task_of_a_chat_and_each_item_of_a_batch_is_a_trace(
    observed: Project, collector: Collector
) -> None:
    observed.forge("chat", "boss.yaml", stdin="One.\nTwo.\n", env=settings(collector))
    assert len(collector.named("invoke_agent boss")) == 2
    assert len({span.trace_id for span in collector.spans}) == 2
    (first, second) = sorted(
        collector.named("invoke_agent boss"), key=lambda span: span.start_time_unix_nano
    )
    assert first.end_time_unix_nano <= second.start_time_unix_nano
    collector.spans.clear()

    observed.write("tasks.jsonl", '{"task": "One."}\n{"task": "Two."}\n{"task": "Three."}\n')
    done = observed.forge("batch", "boss.yaml", "tasks.jsonl", env=settings(collector))
    assert done.returncode == 0, done.stderr
    agents = collector.named("invoke_agent boss")
    assert len({span.trace_id for span in agents}) == len(agents) == 3
    assert len({attributes(span)["gen_ai.conversation.id"] for span in agents}) == 3


@pytest.mark.long
@pytest.mark.parametrize("executor", [(), ("--executor", "dask", "--concurrency", "4")], ids=repr)
def test_all_spans_of_300_items_arrive(
    observed: Project, collector: Collector, executor: tuple[str, ...]
) -> None:
    if executor:
        pytest.importorskip("forge_executor_dask")
    items = 300
    tasks = (f'{{"task": "Task {number}."}}\n' for number in range(items))
    observed.write("tasks.jsonl", "".join(tasks))
    observed.write("plain.yaml", PLAIN)
    done = subprocess.run(
        [sys.executable, "-m", "forge_cli", "batch", "plain.yaml", "tasks.jsonl", *executor],
        cwd=observed.folder,
        env={**os.environ, "FORGE_HOME": str(observed.home), **settings(collector)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "spans" not in done.stderr
    names = Counter(span.name for span in collector.spans)
    assert names == {"invoke_agent plain": items, "chat plain": items}
    assert collector.points["forge.lost_spans", ""] == 0


@pytest.mark.long
def test_calls_of_clients_of_a_served_worker_have_spans(
    observed: Project, collector: Collector
) -> None:
    argv = ["-m", "forge_cli", "serve", "mcp", "helper.yaml"]
    env = {
        **settings(collector, OTEL_BSP_SCHEDULE_DELAY="50"),
        "FORGE_HOME": str(observed.home),
        "PATH": "/usr/bin:/bin",
    }
    server = StdioServerParameters(
        command=sys.executable, args=argv, env=env, cwd=str(observed.folder)
    )

    async def call() -> None:
        with anyio.fail_after(60):
            async with Client(server) as client:
                await client.call_tool("rm", {"path": "x"})
                assert await anyio.to_thread.run_sync(collector.came.wait, 30)  # while it serves

    anyio.run(call)
    (span,) = collector.named("execute_tool rm")
    assert not span.parent_span_id
    assert collector.decisions()["execute_tool rm"]["forge.verdict"] == "blocked"
