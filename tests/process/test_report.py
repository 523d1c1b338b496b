"""``--output-format json|stream-json``: one result object for every end, with the exit code that the process has.

Covers forge_cli.process.report.
"""

import json
import os

import pytest

from forge_cli.core.errors import ExitCode
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.record.line import Line

WIRE = WorkerResult(
    status="failed",
    exit_code=ExitCode.FAILED,
    text="",
    session_id="",
    worker="",
    model="",
    error="",
).wire()

FAILURES = {
    "no such worker": (["nobody.yaml", "go"], 3),
    "invalid worker": (["broken.yaml", "go"], 3),
    "no model": (["bare.yaml", "go"], 3),
    "unknown provider": (["worker.yaml", "go", "-m", "nobody:x"], 3),
    "missing key": (["worker.yaml", "go", "-m", "anthropic:x"], 7),
    "invalid key": (["worker.yaml", "go", "-m", "anthropic:x"], 7, {"ANTHROPIC_API_KEY": "a b"}),
    "bad address": (["worker.yaml", "go", "-m", "openai:x"], 7, {"OPENAI_BASE_URL": "nowhere"}),
    "unreachable": (
        ["worker.yaml", "go", "-m", "openai:x"],
        7,
        {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
    ),
    "broken tools.py": (["broken_tools.yaml", "go"], 3),
    "missing script": (["worker.yaml", "go", "-m", "script:none.yaml"], 3),
    "unknown price": (["worker.yaml", "go", "--max-cost", "1"], 3),
    "empty task": (["worker.yaml", ""], 2),
    "no task": (["worker.yaml"], 2),
    "missing schema": (["worker.yaml", "go", "--output-schema", "none.json"], 3),
    "bad schema": (["worker.yaml", "go", "--output-schema", "worker.yaml"], 3),
    "missing attachment": (["worker.yaml", "go", "--attach", "none.txt"], 2),
    "missing folder": (["worker.yaml", "go", "-C", "nowhere"], 2),
    "missing record": (["worker.yaml", "--replay", "none.jsonl"], 3),
    "record to a folder": (["worker.yaml", "go", "--record", "."], 2),
    "output to a folder": (["worker.yaml", "go", "-o", "."], 2),
    "no session": (["worker.yaml", "-c"], 3),
    "unknown session": (["worker.yaml", "-r", "20200101"], 3),
    "contradicting modes": (["worker.yaml", "go", "-y", "--approval-mode", "auto_deny"], 2),
    "contradicting sessions": (["worker.yaml", "go", "-c", "-r", "x"], 2),
    "contradicting keeping": (["worker.yaml", "go", "--ephemeral", "--on-ask", "park"], 2),
    "unknown option": (["worker.yaml", "go", "--nonsense"], 2),
    "wrong value": (["worker.yaml", "go", "--max-turns", "0"], 2),
    "wrong choice": (["worker.yaml", "go", "--trace", "loud"], 2),
    "no worker": ([], 2),
    "too many arguments": (["worker.yaml", "go", "there"], 2),
    "turn limit": (["worker.yaml", "go", "--max-turns", "1"], 5),
    "script that is over": (["worker.yaml", "go", "-m", "script:short.yaml"], 1),
}


@pytest.fixture
def place(tester, monkeypatch):
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        yield make(tester)


def make(tester):
    tester.write("broken.yaml", "name: w\nnonsense: 1\n")
    tester.write("bare.yaml", "name: bare\n")
    tester.write(
        "broken_tools.yaml",
        "name: w\nmodel: script:script.yaml\ntoolsets: {custom: {module: ./bad.py, tools: [a]}}",
    )
    tester.write("bad.py", "raise RuntimeError('no')\n")
    tester.write("short.yaml", "turns: [{calls: [{tool: peek}]}]")
    return tester


@pytest.mark.few(8)
@pytest.mark.parametrize("form", ["json", "stream-json"])
@pytest.mark.parametrize("failure", FAILURES)
def test_every_failure_prints_its_result(place, cli, monkeypatch, failure: str, form: str) -> None:
    args, code, *env = FAILURES[failure]
    for name, value in (env[0] if env else {}).items():
        monkeypatch.setenv(name, value)
    done = cli("run", *args, "--output-format", form)
    assert done.code == code, done.err
    lines = done.out.splitlines()
    if form == "json":
        assert len(lines) == 1
        result = json.loads(lines[0])
    else:
        last = Line.read(lines[-1].encode())
        assert (last.type, last.intact) == ("sessionEnd", True)
        result = last.data["result"]
    assert result["exitCode"] == code
    assert result["status"] in ("failed", "limit")
    assert {**dict.fromkeys(WIRE), **result}.keys() == WIRE.keys()
    assert list(result) == list(WIRE)
    assert result["error"].splitlines()[0] in done.err
    assert "Traceback" not in done.err
    named = {
        "no model": "bare",
        "missing script": "tester",
        "missing folder": "worker.yaml",
        "unknown option": "",
    }
    assert result["worker"] == named.get(failure, result["worker"])
    kept = {file.stem for file in (place.home / "sessions").glob("*.jsonl")}
    assert {result["sessionId"]} - {""} == kept  # a session is named where it exists
    assert ("resume with" in done.err) <= bool(kept)


def test_bug_before_the_run_prints_a_result(tester, cli, monkeypatch) -> None:
    monkeypatch.setattr("forge_cli.cli.run_options.load_settings", lambda *given: 1 / 0)
    done = cli("run", "worker.yaml", "go", "--output-format", "json")
    assert (done.code, json.loads(done.out)["exitCode"]) == (1, 1)
    assert json.loads(done.out)["error"].startswith("internal error: ZeroDivisionError")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_answer_that_cannot_be_written_is_reported(tester, cli) -> None:
    done = cli("run", "worker.yaml", "go", "--output-format", "json", "-o", "/dev/full")
    result = json.loads(done.out)
    assert (done.code, result["exitCode"], result["status"]) == (1, 1, "failed")
    assert (
        result["error"] == "-o /dev/full: the answer could not be written: No space left on device"
    )


def test_failure_during_a_run_continues_the_lines_of_the_session(tester, cli, monkeypatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("forge_cli.engine.turns.loop.Loop.work", fail)
    lines = [
        Line.read(line.encode())
        for line in cli("run", "worker.yaml", "go", "--json").out.splitlines()
    ]
    assert [line.type for line in lines][0 :: len(lines) - 1] == ["sessionStart", "sessionEnd"]
    assert (lines[-1].prev, lines[-1].seq, lines[-1].intact) == (
        lines[-2].hash,
        lines[-2].seq + 1,
        True,
    )
    assert lines[-1].data["result"]["sessionId"] == lines[0].session
    assert lines[-1].data["result"]["error"].startswith("internal error: RuntimeError: a bug")


@pytest.mark.parametrize(
    ("args", "lines"),
    [
        (["--nonsense", "--json"], 1),
        (["nobody.yaml", "--nonsense", "--output-format", "json"], 1),
        (["--output-format=stream-json", "nobody.yaml", "-yp"], 1),
        (
            ["-yp", "-m", "x", "nobody.yaml", "--output-format", "text", "--output-format", "json"],
            1,
        ),
        (["nobody.yaml", "--output-format", "json", "-m"], 1),
        (["nobody.yaml", "--output-format", "json", "--output-format", "text"], 0),
        (["nobody.yaml", "task", "--", "--json"], 0),
        (["nobody.yaml", "-m", "--json"], 0),
        (["nobody.yaml", "-m--json"], 0),
        (["nobody.yaml", "--output-format"], 0),
        (["nobody.yaml", "--output-format", "jsonl"], 0),
    ],
)
def test_invalid_command_line_prints_the_requested_format(
    place, cli, args: list[str], lines: int
) -> None:
    done = cli("run", *args)
    assert done.code in (2, 3)
    assert len(done.out.splitlines()) == lines, done.err
    assert all(json.loads(line) for line in done.out.splitlines())


def test_other_commands_print_no_result(cli) -> None:
    done = cli("tools", "list", "--json", "--nonsense")
    assert (done.code, done.out) == (2, "")


def test_help_is_not_a_failure(cli) -> None:
    done = cli("run", "--help", "--output-format", "json")
    assert done.code == 0
    assert done.out.startswith("Usage:")


def test_secrets_are_redacted(tester, cli, monkeypatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter2hunter2")
    done = cli("run", "worker.yaml", "go", "--output-format", "json", "-C", "hunter2hunter2")
    assert done.code == 2
    assert "hunter2" not in done.out + done.err
