"""The record: numbered, chained and redacted lines, the same for every file, screen and pipe.

Covers forge_cli.sandbox.secrets.
"""

import json
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest

from forge_cli.core.events import StatusEvent, Streaming
from forge_cli.core.messages import Delta
from forge_cli.core.wire import JsonObject
from forge_cli.hooks import ModelRequest, TextDelta, TurnEnd
from forge_cli.models.script import ScriptedModel, ScriptFile
from forge_cli.record.line import Line
from forge_cli.record.recorder import Recorder
from forge_cli.sandbox.secrets import Redactor
from forge_cli.testing import Project, call, calls

KEY = "s3cr3t-value-of-foo"
SHAPES = {
    "anthropic": "sk-ant-api03-" + "A1b2" * 8,
    "openai": "sk-proj-" + "Zz09" * 10,
    "github": "ghp_" + "a1B2" * 9,
    "aws": "AKIA" + "ABCD1234EFGH5678",
    "slack": "xoxb-123456789012-abcdef",
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
}


@pytest.fixture
def worker(project: Project) -> Project:
    project.write(
        "tools.py",
        "def echo(text: str, more: dict[str, str] = {}) -> dict: return {text: [text], **more}\n",
    )
    project.write(
        "worker.yaml",
        "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [echo], approval: {default: preApproved}}}\n",
    )
    return project


def recorder_for(lines: list[JsonObject], environ: dict[str, str] | None = None) -> Recorder:
    return Recorder(
        lambda line: lines.append(line.data),
        session="s1",
        worker="w",
        redactor=Redactor(environ or {}),
    )


def test_lines_are_numbered_hashed_and_linked_to_the_previous_one(worker: Project) -> None:
    lines = worker.run(calls(call("echo", text="hi")), "Done {result}.").lines
    recorded = [line for line in lines if line["type"] != "streaming"]
    assert [line["seq"] for line in recorded] == list(range(1, len(recorded) + 1))
    assert recorded[0]["prev"] is None
    assert all(after["prev"] == before["hash"] for before, after in pairwise(recorded))
    assert all(Line(line).intact for line in recorded)
    (session,) = {line["session"] for line in lines}
    for line in lines:
        assert (line["v"], line["worker"], line["depth"], line["session"]) == (1, "w", 0, session)
        assert list(line)[:2] in (["v", "seq"], ["v", "time"])


def test_line_has_its_documented_keys() -> None:
    lines: list[JsonObject] = []
    recorder = recorder_for(lines)
    recorder(StatusEvent("info", "first"))
    recorder(Streaming("r1", "x", done=False))
    recorder(StatusEvent("warning", "second", "c1"))
    first, streaming, second = lines
    assert second == {
        "v": 1,
        "seq": 2,
        "time": second["time"],
        "session": "s1",
        "worker": "w",
        "depth": 0,
        "type": "status",
        "level": "warning",
        "message": "second",
        "toolCallId": "c1",
        "prev": first["hash"],
        "hash": second["hash"],
    }
    assert streaming == {
        "v": 1,
        "time": streaming["time"],
        "session": "s1",
        "worker": "w",
        "depth": 0,
        "type": "streaming",
        "requestId": "r1",
        "delta": "x",
        "done": False,
    }


def test_hash_survives_writing_and_reading() -> None:
    lines: list[JsonObject] = []
    recorder_for(lines)(StatusEvent("info", "é \ud800 \x00 😀"))
    again = json.loads(json.dumps(lines[0]))
    assert Line(again).intact


@pytest.mark.parametrize("secret", [KEY, *SHAPES.values()], ids=["environment", *SHAPES])
def test_secret_is_redacted_in_every_line(
    worker: Project, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOO_API_KEY", KEY)
    turn = calls(
        call("echo", text=secret, more={secret: f"a {secret} b"}),
        call("echo", txt=secret),
        call(secret.split("\n")[0], text=secret),
        text=f"The key is {secret}!",
    )
    seen = worker.run(turn, f"{secret} is {{result}}", task=f"Use {secret}")
    assert seen.statuses == ["success", "invalid", "not_found"]
    whole = secret.replace("\n", "\\n")
    assert [line for line in seen.lines if whole in json.dumps(line)] == []
    assert secret in seen.result.response


@pytest.mark.few(6)
@pytest.mark.parametrize("secret", [KEY, *SHAPES.values(), "postgres://me:hunter2@db"])
@pytest.mark.parametrize("size", [1, 3, 7])
def test_secret_streamed_in_pieces_is_redacted(
    worker: Project, monkeypatch: pytest.MonkeyPatch, secret: str, size: int
) -> None:
    monkeypatch.setenv("FOO_API_KEY", KEY)
    text = f"The key is {secret} indeed, {secret}"

    class Chopped(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta]:
            for start in range(0, len(text), size):
                yield TextDelta(text[start : start + size])
            yield TurnEnd("end")

    seen = worker.run(model=Chopped("chopped", ScriptFile(turns=[])))
    sent = "".join(event.delta for event in seen.of(Streaming))
    assert sent == "".join(line["delta"] for line in seen.lines if line["type"] == "streaming")
    assert sent == Redactor({"FOO_API_KEY": KEY}).redact(text)
    assert sent.startswith("The key is ")
    assert secret not in sent
    assert seen.result.response == text


def test_secret_is_redacted_on_screen_but_not_in_the_named_output_file(
    worker: Project,
) -> None:
    worker.write(
        "script.yaml",
        f"turns: [{{calls: [{{tool: echo, input: {{text: {KEY}}}}}]}}, {{text: it is {KEY}}}]\n",
    )
    done = worker.forge(
        *(
            "run",
            "worker.yaml",
            "go",
            "-m",
            "script:script.yaml",
            "--trace",
            "debug",
            "-o",
            "answer.txt",
        ),
        env={"FOO_AUTH": KEY},
    )
    assert (done.returncode, done.stdout) == (0, "it is [redacted:FOO_AUTH]\n")
    assert KEY not in done.stderr
    assert 'echo text="[redacted:FOO_AUTH]"' in done.stderr
    assert worker.read("answer.txt") == f"it is {KEY}\n"


def test_longer_of_two_overlapping_secrets_is_redacted() -> None:
    redactor = Redactor({"A_KEY": "12345678", "B_KEY": "1234567890"})
    assert redactor.redact("1234567890 12345678") == "[redacted:B_KEY] [redacted:A_KEY]"
