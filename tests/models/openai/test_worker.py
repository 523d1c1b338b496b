"""Workers and the command line, talking to a server as they would to any."""

import json
import re

import pytest

from forge_cli.core.errors import ExitCode, ModelError
from forge_cli.core.events import Streaming, TurnEndEvent
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import ModelEnv, Usage
from forge_cli.models.openai import forge_models
from forge_cli.models.openai import make as make_model
from forge_cli.models.openai.dialects import ForcedDialect
from forge_cli.testing import Project

from .server import ChatServer, Reply, call_delta, calls, chunk, refusal, says

KEY = "sk-test-0123456789-0123456789-0123456789"
WORKER = """
name: adder
instructions: Add.
toolsets:
  custom: {module: ./tools.py, tools: [add], approval: {default: preApproved}}
"""
TOOLS = '''
def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    open("added", "a").write(f"{a}+{b};")
    return a + b
'''


@pytest.fixture
def project(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a worker that adds."""
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    monkeypatch.chdir(project.folder)
    return project


@pytest.fixture
def keyed(server: ChatServer) -> ChatServer:
    """The server, which insists on the key."""
    server.key = KEY
    return server


def test_worker_makes_two_calls_and_requests_only_grow(server, make, project) -> None:
    server.will(
        calls(("a", "add", {"a": 1, "b": 2}), ("b", "add", {"a": "x"})),
        calls(("a", "add", {"a": 3}), text="And "),
        says("Six", "."),
    )
    seen = project.run(model=make(), task="1 + 2 + 3")
    assert seen.result is not None
    assert (seen.result.response, seen.result.exit_code) == ("Six.", ExitCode.DONE)
    assert seen.result.usage == Usage(33, 21)
    assert seen.statuses == ["success", "invalid", "success"]
    assert "".join(event.delta for event in seen.of(Streaming) if not event.done) == "And Six."
    assert [event.stop for event in seen.of(TurnEndEvent)] == ["tool_use", "tool_use", "end"]
    assert project.read("added") == "1+2;3+0;"
    first, second, third = [request.message_bytes for request in server.requests]
    assert second.startswith(first + b",")
    assert third.startswith(second + b",")
    results = [
        message["content"] for message in server.requests[2].messages if message["role"] == "tool"
    ]
    assert results[0] == "3"
    assert results[1].startswith("Error: invalid input for add: a")


def test_interrupted_call_never_runs(server, make, project) -> None:
    half = Reply((chunk(content="Let me"), call_delta(0, "a", "add", '{"a": 1}')), end="cut")
    server.will(half, calls(("b", "add", {"a": 2})), says("Two."))
    seen = project.run(model=make())
    assert seen.result is not None
    assert (seen.result.response, project.read("added")) == ("Two.", "2+0;")
    assert server.requests[2].messages[2]["content"] is None


def test_invalid_calls_are_reported_and_the_history_stays_valid(server, make, project) -> None:
    broken = Reply(
        (
            call_delta(0, "a", "add", '{"a":'),
            call_delta(1, "b", "no such tool", "{}"),
            chunk("stop"),
        )
    )
    server.will(broken, says("Sorry."))
    seen = project.run(model=make())
    assert seen.statuses == ["invalid", "not_found"]
    told = [
        message["content"] for message in server.requests[1].messages if message["role"] == "tool"
    ]
    assert told[0] == 'Error: the input of add is not a JSON object: {"a":'


def test_forced_model_works_with_tools(server, make, project) -> None:
    server.will(says('{"tool": "add", "input": {"a": 2, "b": 2}}'), says('{"answer": "Four."}'))
    seen = project.run(model=make(ForcedDialect()))
    assert seen.result is not None
    assert (seen.result.response, project.read("added")) == ("Four.", "2+2;")
    assert (
        server.requests[1].messages[-1]["content"].startswith("add gave:\n4\n\nIf this is enough, ")
    )
    assert server.requests[1].message_bytes.startswith(server.requests[0].message_bytes)


def test_interrupt_ends_an_endless_stream(server, make, project) -> None:
    signal = InterruptSignal()
    server.will(Reply((chunk(content="Well,"),), end="silence"))

    def interrupt(line) -> None:
        if line.type == "streaming":
            signal.interrupt()

    seen = project.run(model=make(read=60), interrupt_signal=signal, sinks=(interrupt,))
    assert seen.result is not None
    assert seen.result.status == "interrupted"


def forge(project: Project, server: ChatServer, *more: str, **env: str):
    given = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key or "", **env}
    return project.forge("run", "worker.yaml", "add 1 and 2", "-m", "openai:tiny", *more, env=given)


def test_command_line_retries_and_hides_the_key(keyed, project) -> None:
    keyed.will(
        refusal(429, {"error": {"message": KEY}}, retry_after="0"),
        calls(("a", "add", {"a": 1, "b": 2})),
        says("3"),
    )
    done = forge(project, keyed, "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, lines[-1]["result"]["response"]) == (0, "3")
    assert lines[-1]["result"]["model"] == "openai:tiny"
    warned = [line["message"] for line in lines if line["type"] == "status"]
    assert len(warned) == 1
    assert re.search(r"; trying again in [0-9.]+ s \(2 of 5\)$", warned[0])
    assert KEY not in done.stdout + done.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize(("status", "output"), [(400, "text"), (401, "stream-json"), (404, "json")])
def test_refusal_is_exit_7_and_shows_no_key(keyed, project, status, output) -> None:
    keyed.will(refusal(status, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))
    done = forge(project, keyed, "--output-format", output, "--trace", "debug")
    assert done.returncode == 7
    assert f"forge: openai:tiny: {keyed.url}" in done.stderr
    assert "Traceback" not in done.stderr
    assert KEY not in done.stdout + done.stderr


def test_config_forces_a_model_without_tools(server, project) -> None:
    project.home.mkdir()
    (project.home / "config.yaml").write_text('models: {"openai:tiny": {tools: schema}}\n')
    server.will(says('{"tool": "add", "input": {"a": 1, "b": 2}}'), says('{"answer": "3"}'))
    done = forge(project, server)
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert "response_format" in server.requests[0].body


def test_forced_call_nested_without_end_is_refused(server, project) -> None:
    project.home.mkdir()
    (project.home / "config.yaml").write_text('models: {"openai:tiny": {tools: schema}}\n')
    server.will(
        says('{"tool": "add", "input": {"a": ' + "[" * 300 + "]" * 300 + "}}"),
        says('{"answer": "3"}'),
    )
    done = forge(project, server)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert "the input of add is nested too deeply" in server.requests[1].messages[-1]["content"]


def env(**options: object) -> ModelEnv:
    return ModelEnv(folders=(), notify=lambda *_: None, options=options)


def test_official_server_is_the_default_and_the_window_comes_from_the_config(
    monkeypatch,
) -> None:
    (factory,) = forge_models()
    with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
        make_model("tiny", env())
    assert "OPENAI_API_KEY is not set" in (factory.missing() or "")
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    assert factory.missing() is None
    model = make_model("tiny", env(context=8192))
    assert (model.name, model.context_window) == ("openai:tiny", 8192)
    assert KEY not in repr(vars(model))
