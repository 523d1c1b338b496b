"""``forge serve mcp`` as a process: standard streams, HTTP, signals, and clients that mean no good.

Covers forge_cli.apps.serve.mcp, forge_cli.apps.serve.transports and forge_cli.process.client_lines.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import mcp_types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from forge_cli.core.bounds import start_loop
from forge_cli.testing import Project, call, calls
from tests.support.command_line import Done, Started
from tests.support.deadline import deadline
from tests.support.warm import Warm

OLDER, NEWER = "legacy", "2026-07-28"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
STUBBORN = '''
"""A tool that listens to nobody."""

import time


async def stay() -> str:
    """Hold up the event loop for ever."""
    print("staying", flush=True)
    while True:
        try:
            time.sleep(0.1)
        except BaseException:
            pass
'''
TOO_LONG = "a message may have 10 MiB at most"
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture
def server(tester: Project, start: Callable[..., Started]) -> Callable[..., Started]:
    """Start a server with pipes around it; it is killed when the test ends."""
    return lambda *words: start("serve", "mcp", *words, stdin=subprocess.PIPE)


def call_request(id: int, name: str, **args: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": id,
        "method": "tools/call",
        "params": {"name": name, "arguments": args},
    }


def exchange(server: Started, *messages: dict[str, Any] | str) -> tuple[Done, list[dict[str, Any]]]:
    """Send lines, close the input, and return the answers; all of them must be messages."""
    lines = [each if isinstance(each, str) else json.dumps(each) for each in messages]
    out, err = server.process.communicate("".join(f"{line}\n" for line in lines), timeout=60)
    return Done(server.process.returncode, out, err), [
        json.loads(line) for line in out.splitlines()
    ]


def by_id(answers: list[dict[str, Any]]) -> dict[int | None, dict[str, Any]]:
    return {answer["id"]: answer for answer in answers if "id" in answer}


@asynccontextmanager
async def stdio_client(
    project: Project, warm: Warm, *words: str, **options: Any
) -> AsyncIterator[Client]:
    env = {**os.environ, "FORGE_HOME": str(project.home)}
    argv = ["serve", "mcp", *words]
    parameters = StdioServerParameters(
        command=str(warm.forge), args=argv, env=env, cwd=project.folder
    )
    with anyio.fail_after(60):
        async with Client(parameters, **options) as client:
            yield client


async def agree(context: Any, params: Any) -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"approve": True})


async def use_everything(client: Client) -> list[str]:
    """Make a call that runs, one that asks, and give the worker a task."""
    wanted = [("peek", {}), ("echo", {"text": "hi"}), ("run_tester", {"task": "it"})]
    results = [await client.call_tool(name, args) for name, args in wanted]
    assert not any(result.is_error for result in results), results
    return [getattr(result.content[0], "text", "") for result in results]


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", [OLDER, NEWER])
def test_official_client_works_over_standard_streams(
    tester: Project, warm: Warm, mode: str
) -> None:
    async def work() -> list[str]:
        async with stdio_client(
            tester, warm, "worker.yaml", mode=mode, elicitation_callback=agree
        ) as client:
            assert client.protocol_version == ("2025-11-25" if mode == OLDER else NEWER)
            return await use_everything(client)

    assert start_loop(work) == [str(tester.folder), "hi", "Last words: it"]


def test_serve_without_a_worker_offers_tools_that_need_none(tester: Project, warm: Warm) -> None:
    async def work() -> tuple[set[str], str]:
        async with stdio_client(tester, warm, "-C", "src") as client:
            read = await client.call_tool("read_file", {"path": "a.txt"})
            return {tool.name for tool in (await client.list_tools()).tools}, str(read.content[0])

    names, read = start_loop(work)
    assert {"read_file", "write_file", "shell"} <= names
    assert not any(name.startswith("run_") and name != "run_custom_tool" for name in names)
    assert "two" in read


def test_standard_output_carries_only_the_protocol(
    server: Callable[..., Started], tester: Project
) -> None:
    done, answers = exchange(
        server("worker.yaml"), INITIALIZE, INITIALIZED, call_request(2, "chatty")
    )
    assert done.code == 0, done.err
    assert by_id(answers)[2]["result"]["content"][0]["text"] == "quiet words"
    assert "from a child" in done.err
    ended = tester.forge("sessions", "show", "last").stdout
    assert "-- completed: 0 turns, 1 call" in ended


def test_invalid_message_is_answered_and_the_next_one_read(server: Callable[..., Started]) -> None:
    lines = [
        "garbage",
        "[]",
        '{"jsonrpc": "2.0", "id": 7}',
        "[" * 100_000,
        "\x00\xff",
        "x" * 20_000_000,
        {**call_request(8, "peek"), "params": "x"},
        call_request(10, "echo", text="\ud800"),
        {"jsonrpc": "2.0", "id": 9, "method": "no/such"},
        {"jsonrpc": "2.0", "method": "notifications/nothing", "params": {}},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 12345}},
    ]
    done, answers = exchange(
        server("worker.yaml"), INITIALIZE, INITIALIZED, *lines, call_request(2, "peek")
    )
    assert done.code == 0, done.err
    complaints = [answer["error"]["message"] for answer in answers if answer.get("id", 0) is None]
    assert complaints.count(TOO_LONG) == 1
    assert complaints.count("this line is not a JSON-RPC message") == 4
    found = by_id(answers)
    assert not found[2]["result"].get("isError")
    assert found[9]["error"]["code"] == mcp_types.METHOD_NOT_FOUND
    assert {found[id]["error"]["code"] for id in (7, 8, 10)} == {mcp_types.PARSE_ERROR}
    assert "Traceback" not in done.err


@pytest.mark.long
def test_message_over_the_limit_is_answered_with_its_id(
    server: Callable[..., Started],
) -> None:
    head = {"jsonrpc": "2.0", "id": 20, "method": "tools/call"}
    params = {"name": "peek", "arguments": {"id": 5, "text": "x" * 11_000_000, "inner": {"id": 6}}}
    lines = [
        {**head, "params": params},
        {"params": params, **head, "id": 21},
        {"jsonrpc": "2.0", "params": params, "method": "tools/call", "id": 'a "b"'},
        {"jsonrpc": "2.0", "method": "notifications/nothing", "params": params},
        '{"id": "\\q", "params": "' + "x" * 11_000_000 + '"}',
    ]
    done, answers = exchange(
        server("worker.yaml"), INITIALIZE, INITIALIZED, *lines, call_request(2, "peek")
    )
    assert done.code == 0, done.err
    told = [
        answer["id"] for answer in answers if answer.get("error", {}).get("message") == TOO_LONG
    ]
    assert told == [20, 21, 'a "b"', None, None]
    assert not by_id(answers)[2]["result"].get("isError")


def test_calls_before_the_handshake_are_refused(
    server: Callable[..., Started], tester: Project
) -> None:
    done, answers = exchange(server("worker.yaml"), call_request(2, "chatty"))
    assert done.code == 0, done.err
    assert "error" in by_id(answers)[2]
    assert "from a child" not in done.err


@pytest.mark.long
def test_running_call_ends_with_the_input(server: Callable[..., Started], tester: Project) -> None:
    os.mkfifo(tester.folder / "gate")
    done, _ = exchange(server("worker.yaml"), INITIALIZE, INITIALIZED, call_request(2, "hold"))
    assert done.code == 0, done.err
    shown = tester.forge("sessions", "show", "last").stdout
    assert "> hold" in shown
    assert "interrupted" in shown
    assert "-- completed: 0 turns, 1 call" in shown


def test_invalid_worker_is_one_message(server: Callable[..., Started], tester: Project) -> None:
    tester.write("wrong.yaml", "name: w\ntoolsets: {shel: {}}\n")
    done, answers = exchange(server("wrong.yaml"))
    assert (done.code, answers) == (3, [])
    assert "did you mean 'shell'?" in done.err


class Http:
    """A server that listens, as it says itself on standard error."""

    def __init__(self, started: Started) -> None:
        self.started = started
        assert started.process.stderr
        with deadline():
            text = "".join(started.process.stderr.readline() for _ in range(3))
        url, token = re.search(r"http://\S+", text), re.search(r"Bearer (\S+)", text)
        assert url, text
        assert token, text
        self.url, self.token = url[0], token[1]

    def post(self, **headers: str) -> httpx2.Response:
        given = {"Accept": "application/json, text/event-stream", **headers}
        given = {name.replace("_", "-"): value for name, value in given.items()}
        return httpx2.post(self.url, json=INITIALIZE, headers=given, timeout=30)


@pytest.fixture
def http(server: Callable[..., Started]) -> Http:
    return Http(server("worker.yaml", "--http", "0"))


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", [OLDER, NEWER])
def test_official_client_works_over_http(http: Http, tester: Project, mode: str) -> None:
    async def work() -> list[str]:
        headers = {"Authorization": f"Bearer {http.token}"}
        with anyio.fail_after(60):
            async with httpx2.AsyncClient(headers=headers, timeout=60) as inner:
                transport = streamable_http_client(http.url, http_client=inner)
                async with Client(transport, mode=mode, elicitation_callback=agree) as client:
                    return await use_everything(client)

    assert start_loop(work) == [str(tester.folder), "hi", "Last words: it"]


@pytest.mark.long
def test_requests_need_the_token_and_web_pages_are_refused(http: Http) -> None:
    good = f"Bearer {http.token}"
    local = http.url.removesuffix("/mcp")
    assert http.post(Authorization=good).status_code == 200
    assert http.post(Authorization=good, Origin=local).status_code == 200
    assert (
        http.post(
            Authorization=good, Host=local.replace("http://127.0.0.1", "localhost")
        ).status_code
        == 200
    )
    for wrong in (
        {},
        {"Authorization": "Bearer x"},
        {"Authorization": http.token},
        {"Authorization": f"Basic {good}"},
    ):
        answer = http.post(**wrong)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    for foreign in ("http://evil.example", "null", "https://127.0.0.1", local + "0"):
        assert http.post(Authorization=good, Origin=foreign).status_code == 403
    for foreign in ("evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1"):
        assert http.post(Authorization=good, Host=foreign).status_code == 403
    assert httpx2.get(f"{local}/other", headers={"Authorization": good}).status_code == 404
    huge = httpx2.post(
        http.url, content=b"x" * 11_000_000, headers={"Authorization": good}, timeout=30
    )
    assert huge.status_code == 413


def test_taken_port_is_one_message(http: Http, server: Callable[..., Started]) -> None:
    port = re.search(r":(\d+)/", http.url)
    assert port
    done, _ = exchange(server("worker.yaml", "--http", port[1]))
    assert done.code == 2
    assert f"--http {port[1]} on 127.0.0.1: Address already in use" in done.err


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_the_server_in_order(
    tester: Project, start: Callable[..., Started], number: signal.Signals, code: int
) -> None:
    os.mkfifo(tester.folder / "gate")
    started = start("serve", "mcp", "worker.yaml", stdin=subprocess.PIPE)
    assert started.process.stdin
    for message in (INITIALIZE, INITIALIZED, call_request(2, "hold")):
        started.process.stdin.write(json.dumps(message) + "\n")
    started.process.stdin.flush()
    started.wait_for("holding")
    started.signal(number)
    done = started.end()
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    shown = tester.forge("sessions", "show", "last").stdout
    assert "> hold" in shown
    assert "-- interrupted" in shown


@pytest.mark.long
def test_blocking_tool_is_abandoned(project: Project, start: Callable[..., Started]) -> None:
    project.write(
        "worker.yaml",
        "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [stay], approval: {default: preApproved}}}\n",
    )
    project.write("tools.py", STUBBORN)
    started = start("serve", "mcp", "worker.yaml", stdin=subprocess.PIPE)
    assert started.process.stdin
    for message in (INITIALIZE, INITIALIZED, call_request(2, "stay")):
        started.process.stdin.write(json.dumps(message) + "\n")
    started.process.stdin.flush()
    started.wait_for("staying")
    started.signal(signal.SIGTERM)
    done = started.end()
    assert done.code == 143, done.err
    assert "did not end, and was abandoned" in done.err
    shown = project.forge("sessions", "show", "last").stdout
    assert "> stay" in shown
    assert "-- interrupted" in shown


def test_unused_server_leaves_no_session(server: Callable[..., Started], tester: Project) -> None:
    done, answers = exchange(server("worker.yaml"), INITIALIZE, INITIALIZED)
    assert done.code == 0, done.err
    instructions = answers[0]["result"]["instructions"]
    assert str(tester.folder) in instructions
    assert "/notes" in instructions
    assert json.loads(tester.forge("sessions", "list", "--json").stdout) == []


@pytest.mark.long
def test_forge_can_be_a_client_of_forge(tester: Project, warm: Warm) -> None:
    inner = {
        "command": str(warm.forge),
        "args": ["serve", "mcp", "worker.yaml"],
        "connect_timeout": 30,
    }
    inner["env"] = {"FORGE_HOME": str(tester.home)}
    config = {"servers": {"inner": inner}, "approval": {"default": "preApproved"}}
    tester.write("outer.yaml", json.dumps({"name": "outer", "toolsets": {"mcp": config}}))
    made = [
        call("inner__peek"),
        call("inner__run_tester", task="it"),
        call("inner__echo", text="hi"),
    ]
    seen = tester.run(calls(*made), "done", worker="outer.yaml", timeout=60)
    peek, task, echo = seen.outcomes
    assert (peek.value.text(), task.value.text()) == (str(tester.folder), "Last words: it")
    assert echo.status == "error"
    assert "this client cannot ask its user" in (echo.error or "")
