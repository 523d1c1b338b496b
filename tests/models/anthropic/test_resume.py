"""A resumed session, with the real SDK and a server with the checks of the real API."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from forge_cli.cli.app import carry_out
from forge_cli.core.phrases import UNCERTAIN_CALL
from forge_cli.process.launch import Launch
from forge_cli.testing import Project

from .server import Api, Stall, say, thinking, tool_use

TOOLS = '''
"""Tools that look, change and wait."""

import anyio

from forge_cli import Effect, tool


@tool(effects={Effect.WRITE}, needs_approval=False)
async def hold() -> str:
    """Wait for ever."""
    print("holding", flush=True)
    await anyio.sleep_forever()


@tool(effects={Effect.READ}, needs_approval=False)
def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


def risk(what: str) -> str:
    """Change something."""
    return f"changed {what}"
'''

WORKER = """
name: worker
instructions: You work.
model: anthropic:claude-haiku-5-5
toolsets:
  custom: {module: ./tools.py, tools: [hold, look, risk]}
"""

INTERRUPTED = '{"type": "interrupted"}'


@pytest.fixture
def worker(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.write("tools.py", TOOLS)
    project.write("worker.yaml", WORKER)
    monkeypatch.chdir(project.folder)
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    return project


@pytest.fixture
def forge(worker: Project, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run a command in this process, in which the SDK is loaded only once."""

    def carried_out(*words: str) -> tuple[int, str]:
        capfd.readouterr()
        code = carry_out(list(words), Launch())
        sys.stdout.flush()
        return code, capfd.readouterr().out

    return carried_out


@contextmanager
def started(project: Project, *words: str) -> Iterator[subprocess.Popen[str]]:
    """forge in a process of its own, that can be stopped; everything it says comes in one stream."""
    process = subprocess.Popen(
        [sys.executable, "-m", "forge_cli", "run", "worker.yaml", "go", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def sent(api: Api, index: int = -1) -> list[Any]:
    """The messages of a request, without cache marks."""
    return [
        [message["role"], [_bare(block) for block in message["content"]]]
        for message in api.received[index].data["messages"]
    ]


def _bare(block: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_call_is_resumed_with_a_valid_request(
    api: Api, worker: Project, forge, number: signal.Signals
) -> None:
    api.will(
        say(
            thinking("Hm."),
            "I look.",
            tool_use("toolu_1", "look", at="a"),
            tool_use("toolu_2", "hold"),
            tool_use("toolu_3", "risk", what="b"),
        ),
        say("I see."),
        say("Gladly."),
    )
    with started(worker, "--trace", "normal") as process:
        assert process.stdout
        assert any("holding" in line for line in process.stdout)
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(timeout=60) == (130 if number == signal.SIGINT else -9)
    assert forge("run", "worker.yaml", "-c") == (0, "I see.\n")
    results = sent(api)[2]
    held = (
        UNCERTAIN_CALL if number == signal.SIGKILL else INTERRUPTED
    )  # nobody knows how far it came
    assert results[0] == "user"
    assert [(block["tool_use_id"], block["content"]) for block in results[1]] == [
        *(("toolu_1", "seen a"), ("toolu_2", held), ("toolu_3", INTERRUPTED))
    ]
    assert sent(api)[1] == ["assistant", sent(api)[1][1]]
    assert sent(api)[1][1][0]["signature"] == "c2lnbmVk"
    assert forge("run", "worker.yaml", "-c", "and more") == (0, "Gladly.\n")
    assert sent(api)[: len(sent(api, -2))] == sent(api, -2)


@pytest.mark.long
@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "task"), [(signal.SIGINT, []), (signal.SIGKILL, ["go on"])])
def test_interrupted_answer_is_resumed_with_a_valid_request(
    api: Api, worker: Project, forge, number: signal.Signals, task: list[str]
) -> None:
    api.will(Stall(say("I was just about to"), after=5), say("Here it is."))
    with started(worker, "--json") as process:
        assert process.stdout
        assert any('"type": "streaming"' in line for line in process.stdout)
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(timeout=60) == (130 if number == signal.SIGINT else -9)
    assert forge("run", "worker.yaml", "-c", *task) == (0, "Here it is.\n")


def test_parked_calls_are_resumed_after_their_answers(api: Api, worker: Project, forge) -> None:
    calls = [tool_use(f"toolu_{number}", "risk", what=str(number)) for number in range(3)]
    api.will(say(thinking("Hm."), "Let me.", *calls), say("Done."))
    assert forge("run", "worker.yaml", "go", "--on-ask", "park")[0] == 10
    first, second, _ = json.loads(forge("approvals", "list", "--json")[1])
    forge("approvals", "answer", first["session"], first["request"], "yes")
    forge("approvals", "answer", first["session"], second["request"], "no", "too early")
    assert forge("run", "worker.yaml", "-r", first["session"]) == (0, "Done.\n")
    assert [(block["content"], block.get("is_error", False)) for block in sent(api)[2][1]] == [
        ("changed 0", False),
        ("risk was not called; the user said no: too early", True),
        ("risk was not called; denied: forge could not ask (not interactive)", True),
    ]
