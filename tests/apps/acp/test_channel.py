"""``forge serve acp`` as a process: standard streams, signals, editors that vanish, and ones that mean no good.

Covers forge_cli.apps.acp.channel, forge_cli.apps.acp.command and forge_cli.apps.acp.requests.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest

import forge_cli
from forge_cli.apps.acp import asking
from forge_cli.apps.acp.channel import EditorChannel
from forge_cli.apps.acp.requests import EditorRequests
from forge_cli.core.approval import OnAsk
from forge_cli.core.bounds import start_loop
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.files.worker import Limits
from forge_cli.process.client_lines import ClientLines
from forge_cli.record.log import session_files
from forge_cli.record.overview import session_overview
from forge_cli.testing import Project
from tests.support.command_line import Started
from tests.support.deadline import deadline

WORKER = """
name: helper
model: script:script.yaml
toolsets:
  filesystem: {}
  custom: {module: ./tools.py, tools: [wait], approval: {default: preApproved}}
"""
TOOLS = '''
"""A tool that takes its time."""

import os

import anyio


async def wait() -> str:
    """Wait for ever."""
    print("printed")
    os.write(1, b"written\\n")
    await anyio.sleep_forever()
    return ""
'''
WAITS = 'turns:\n  - calls: [{tool: wait, input: {}}]\n  - text: "done"\n'
ASKS = 'turns:\n  - calls: [{tool: write_file, input: {path: a, content: x}}]\n  - text: "It says: {result}"\n'


@pytest.fixture
def helper(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    project.write("script.yaml", WAITS)
    return project


@pytest.fixture
def server(helper: Project, start: Callable[..., Started]) -> Callable[..., Started]:
    """Start a server with pipes around it; it is killed when the test ends."""
    return lambda *words: start("serve", "acp", *(words or ("worker.yaml",)), stdin=subprocess.PIPE)


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def send(server: Started, message: dict[str, Any]) -> None:
    assert server.process.stdin
    server.process.stdin.write(json.dumps(message) + "\n")
    server.process.stdin.flush()


def read_until(server: Started, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The first message that is wanted; every line is a message."""
    assert server.process.stdout
    with deadline(60):
        for line in server.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if wanted(message):
                return message
    raise AssertionError("it ended")


def in_session(server: Started, folder: Path) -> str:
    send(server, request(1, "initialize", protocolVersion=1))
    send(server, request(2, "session/new", cwd=str(folder), mcpServers=[]))
    return str(read_until(server, lambda each: each.get("id") == 2)["result"]["sessionId"])


def prompt(id: int, session: str) -> dict[str, Any]:
    return request(id, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])


def is_update(message: dict[str, Any], **wanted: Any) -> bool:
    update = message.get("params", {}).get("update", {})
    return message.get("method") == "session/update" and wanted.items() <= update.items()


def test_invalid_message_gets_an_error(server: Callable[..., Started]) -> None:
    lines = {
        "no json": (-32700, None),
        '{"jsonrpc": "2.0", "id": 1': (-32700, None),
        "[" * 100_000: (-32700, None),
        "[]": (-32600, None),
        "7": (-32600, None),
        "null": (-32600, None),
        '{"jsonrpc": "2.0"}': (-32600, None),
        '{"jsonrpc": "2.0", "id": 8}': (-32600, 8),
        '{"jsonrpc": "2.0", "id": 9, "method": 3}': (-32600, 9),
        '{"jsonrpc": "2.0", "id": [10], "method": "initialize"}': (-32600, None),
        '{"jsonrpc": "2.0", "id": true, "method": "initialize"}': (-32600, None),
        '{"jsonrpc": "2.0", "id": 1.5, "method": "initialize"}': (-32600, None),
        '{"jsonrpc": "2.0", "id": 11, "error": "gone"}': (-32600, 11),
        '{"jsonrpc": "2.0", "id": 12, "method": "no/such"}': (-32601, 12),
        '{"jsonrpc": "2.0", "id": 13, "method": "session/new"}': (-32602, 13),
        '{"jsonrpc": "2.0", "id": 14, "method": "session/new", "params": {"cwd": 5}}': (-32602, 14),
        '{"jsonrpc": "2.0", "id": 15, "method": "session/prompt", "params": []}': (-32602, 15),
        '{"jsonrpc": "2.0", "id": "x", "method": "session/prompt", "params": {"sessionId": "s", "prompt": []}}': (
            -32002,
            "x",
        ),
        '{"jsonrpc": "2.0", "id": 16, "method": "_own/method"}': (-32601, 16),
        json.dumps(request(17, "session/load", sessionId="../x", cwd="/", mcpServers=[])): (
            -32002,
            17,
        ),
    }
    silent = [
        '{"jsonrpc": "2.0", "method": "session/cancel"}',
        '{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "none"}}',
        '{"jsonrpc": "2.0", "method": "no/such"}',
        '{"jsonrpc": "2.0", "id": 99, "result": {}}',
        "",
    ]
    started = server()
    last = request(1, "initialize", protocolVersion=1)
    text = "\n".join([*lines, *silent, json.dumps(last)]) + "\n"
    out, err = started.process.communicate(text, timeout=60)
    answers = [json.loads(line) for line in out.splitlines()]
    seen = [(each["error"]["code"], each["id"]) for each in answers if "error" in each]
    assert sorted(seen, key=str) == sorted(lines.values(), key=str)
    assert [each["result"]["protocolVersion"] for each in answers if "result" in each] == [1]
    assert started.process.returncode == 0
    assert "Traceback" not in err


@pytest.mark.few(1)
@pytest.mark.parametrize("script", [WAITS, ASKS], ids=["in a tool", "at a question"])
def test_disconnected_editor_leaves_an_interrupted_session(
    helper: Project, server: Callable[..., Started], script: str
) -> None:
    helper.write("script.yaml", script)
    started = server()
    session = in_session(started, helper.folder)
    send(started, prompt(3, session))
    read_until(started, lambda each: is_update(each, sessionUpdate="tool_call"))
    if script == ASKS:
        read_until(started, lambda each: each.get("method") == "session/request_permission")
    assert started.process.stdin
    assert started.process.stdout
    started.process.stdin.close()
    started.process.stdout.close()
    started.process.stdin = started.process.stdout = None
    with deadline(30):
        assert started.process.wait() == 0
    with helper.environment():
        [path] = session_files()
        seen = session_overview(path)
    assert (seen.session, seen.status, seen.pid) == (session, "interrupted", None)
    assert not (helper.folder / "a").exists()

    again = server()
    send(
        again, request(1, "session/load", sessionId=session, cwd=str(helper.folder), mcpServers=[])
    )
    shown = read_until(
        again, lambda each: is_update(each, sessionUpdate="tool_call_update", status="failed")
    )
    assert shown["params"]["update"]["_meta"] == {"forge": {"status": "interrupted"}}
    assert "error" not in read_until(again, lambda each: each.get("id") == 1)


def test_signal_ends_the_agent_in_order(helper: Project, server: Callable[..., Started]) -> None:
    started = server()
    session = in_session(started, helper.folder)
    send(started, prompt(3, session))
    read_until(started, lambda each: is_update(each, status="in_progress"))
    started.process.send_signal(signal.SIGTERM)
    assert (
        read_until(started, lambda each: each.get("id") == 3)["result"]["stopReason"] == "cancelled"
    )
    with deadline(30):
        assert started.process.wait() == 143
    assert started.process.stderr
    assert "printed\nwritten\n" in started.process.stderr.read()


def test_unanswered_question_becomes_a_no(helper: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "ANSWER_TIMEOUT", 0.2)
    helper.write("script.yaml", ASKS)
    work = RunOptions(
        worker=str(helper.folder / "worker.yaml"),
        named="worker.yaml",
        model=None,
        mode=None,
        on_ask=OnAsk.DENY,
        limits=Limits(),
        workspace=helper.folder,
        zones=(),
        plugins=True,
    )
    here, there = os.pipe(), os.pipe()

    async def main() -> list[dict[str, Any]]:
        with (
            anyio.fail_after(60),
            os.fdopen(there[1], "w") as out,
            os.fdopen(here[1], "w") as typed,
        ):
            async with anyio.create_task_group() as tasks:
                channel = EditorChannel(ClientLines(here[0], out))
                requests = EditorRequests(work, channel, tasks)
                tasks.start_soon(channel.read)
                tasks.start_soon(channel.write)
                tasks.start_soon(requests.serve)

                def tell(message: dict[str, Any]) -> None:
                    typed.write(json.dumps(message) + "\n")
                    typed.flush()

                seen: list[dict[str, Any]] = []

                async def hear(id: int) -> dict[str, Any]:
                    while True:
                        line = await anyio.to_thread.run_sync(reader.readline)
                        seen.append(json.loads(line))
                        if seen[-1].get("id") == id and "result" in seen[-1]:
                            return seen[-1]["result"]

                with os.fdopen(there[0]) as reader:
                    tell(request(1, "session/new", cwd=str(helper.folder), mcpServers=[]))
                    session = (await hear(1))["sessionId"]
                    tell(prompt(2, session))
                    assert (await hear(2))["stopReason"] == "end_turn"
                    tell(request(3, "session/close", sessionId=session))
                    await hear(3)
                    typed.close()
            return seen

    with helper.environment():
        seen = start_loop(main)
    os.close(here[0])
    assert any(each.get("method") == "session/request_permission" for each in seen)
    said = "".join(
        each["params"]["update"]["content"]["text"]
        for each in seen
        if is_update(each, sessionUpdate="agent_message_chunk")
    )
    assert "no answer came in time" in said
    assert not (helper.folder / "a").exists()


def test_broken_worker_is_reported_first(helper: Project) -> None:
    helper.write("worker.yaml", "name: [\n")
    done = helper.forge("serve", "acp", "worker.yaml", stdin="")
    assert (done.returncode, done.stdout) == (3, "")
    assert "worker.yaml" in done.stderr


def test_printed_editor_settings_start_this_worker(helper: Project) -> None:
    words = ("serve", "acp", "worker.yaml", "-m", "anthropic:x", "--read-only", "--print-config")
    worker = str(helper.folder / "worker.yaml")
    expected = ["serve", "acp", worker, "-m", "anthropic:x", "--read-only"]
    for editor in ("zed", "jetbrains"):
        [(name, entry)] = json.loads(helper.forge(*words, editor).stdout)["agent_servers"].items()
        assert name == "forge worker"
        assert Path(entry["command"]).is_absolute()
        assert entry["args"][-len(expected) :] == expected
    for editor in ("neovim", "emacs"):
        quoted = re.findall(r'"([^"]*)"', helper.forge(*words, editor).stdout)
        at = quoted.index("serve")
        assert quoted[at : at + len(expected)] == expected, editor
    assert helper.forge(*words, "notepad").returncode == 2


def test_registry_entry_is_valid() -> None:
    entry = json.loads((Path(forge_cli.__file__).parent / "apps/acp/agent.json").read_text())
    package = {
        "type": "object",
        "required": ["package"],
        "properties": {
            "package": {"type": "string"},
            "args": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": False,
    }
    jsonschema.validate(
        entry,
        {
            "type": "object",
            "required": ["id", "name", "version", "description", "license_url", "distribution"],
            "properties": {
                "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
                "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
                "distribution": {
                    "type": "object",
                    "minProperties": 1,
                    "properties": {"uvx": package},
                    "additionalProperties": False,
                },
            },
        },
    )
    changelog = (Path(__file__).parents[3] / "CHANGELOG.md").read_text()
    released = re.search(r"^## (\S+) \(\d", changelog, re.MULTILINE)[1]  # type: ignore[index]
    assert entry["version"] == released
    assert entry["distribution"]["uvx"]["package"] == f"forge-workers=={released}"
