"""Resumed sessions: after their end, after a kill, on a full disk, from another folder, and only valid ones.

Covers forge_cli.engine.gate.consent, forge_cli.record.log, forge_cli.record.places.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.approval import ApprovalDecision
from forge_cli.record.line import Line
from forge_cli.record.log import broken_link, read_session
from forge_cli.record.resume import Resumed, read_past
from forge_cli.testing import Project, call, calls
from tests.support.logs import script, sessions

TOOLS = '''
"""Tools that leave a trace of each time they run."""

import anyio

from forge_cli import Effect, ToolContext, tool

FILE = "notes.txt"


def _keep(context: ToolContext, text: str) -> str:
    with open(context.workspace / FILE, "a") as file:
        file.write(f"{text}\\n")
    return f"kept {text}"


@tool(effects={Effect.WRITE}, needs_approval=False)
def keep(text: str, context: ToolContext) -> str:
    """Keep a text."""
    return _keep(context, text)


@tool(effects={Effect.WRITE})
def risk(text: str, context: ToolContext) -> str:
    """Keep a text that matters."""
    return _keep(context, text)


@tool(effects={Effect.WRITE}, needs_approval=False)
async def hold(text: str, context: ToolContext) -> str:
    """Keep a text, and wait until somebody stops it."""
    _keep(context, text)
    print("holding", flush=True)
    await anyio.sleep_forever()


@tool(effects={Effect.READ}, needs_approval=False)
def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"
'''

WORKER = """
name: keeper
instructions: You keep things.
model: script:script.yaml
toolsets:
  filesystem: {}
  custom: {module: ./tools.py, tools: [keep, risk, hold, look]}
"""


@pytest.fixture
def keeper(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    return project


def last(project: Project) -> Path:
    return sessions(project)[0]


def lines(project: Project) -> list[Line]:
    """The lines of the latest log, whose chain must hold."""
    log = read_session(last(project))
    assert (broken_link(log), log.dropped) == (None, False)
    return list(log.lines)


def results(project: Project) -> list[tuple[str, str]]:
    return [
        (line.data["toolName"], line.data["status"])
        for line in lines(project)
        if line.type == "toolResult"
    ]


def kept(project: Project) -> list[str]:
    return project.read("notes.txt").split() if (project.folder / "notes.txt").exists() else []


def pending(cli: Callable[..., Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("approvals", "list", "--json").out)
    return found


# ---- going on


def test_conversation_continues_with_its_history(keeper, cli) -> None:
    script(keeper, calls(call("keep", text="one")), "First: {result}", "Second, after {task}")
    assert cli("run", "worker.yaml", "start").out == "First: kept one\n"
    done = cli("run", "worker.yaml", "-c", "and then?")
    assert (done.code, done.out) == (0, "Second, after and then?\n")
    assert len(sessions(keeper)) == 1
    starts = [line for line in lines(keeper) if line.type == "sessionStart"]
    assert [line.data.get("resumed") for line in starts] == [None, starts[1].seq - 1]
    assert starts[0].data["workerFile"] == str(keeper.folder / "worker.yaml")
    past = read_past(lines(keeper))
    assert [message.text or message.role for message in past.messages] == [
        *("start", "assistant", "tool", "First: kept one", "and then?", "Second, after and then?")
    ]


def test_finished_session_needs_a_task(keeper, cli) -> None:
    script(keeper, "Done.")
    cli("run", "worker.yaml", "go")
    before = last(keeper).read_bytes()
    for words in (["-c"], ["-c", "--fork"], ["-c", "--ephemeral"]):
        done = cli("run", "worker.yaml", *words)
        assert (done.code, done.out) == (2, "")
        session = last(keeper).stem
        hint = 'say what to do next: forge run WORKER -r ID "TASK"'
        assert done.err == f"forge: the session {session} has nothing left to do\n  {hint}\n"
    assert [path.read_bytes() for path in sessions(keeper)] == [before]


def test_fork_leaves_the_original_unchanged(keeper, cli) -> None:
    script(keeper, "First.", "Second.")
    cli("run", "worker.yaml", "go")
    first = last(keeper)
    before = first.read_bytes(), first.stat().st_mtime_ns
    done = cli(
        "run", "worker.yaml", "-r", first.stem[:15], "--fork", "more", "--output-format", "json"
    )
    assert json.loads(done.out)["sessionId"] == last(keeper).stem != first.stem
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    copied = lines(keeper)
    assert {line.session for line in copied} == {last(keeper).stem}
    assert [line.data.get("forkedFrom") for line in copied if line.type == "sessionStart"] == [
        None,
        first.stem,
    ]
    assert [message.text for message in read_past(copied).messages] == [
        "go",
        "First.",
        "more",
        "Second.",
    ]


def test_session_can_be_ephemeral(keeper, cli) -> None:
    script(keeper, "First.", "Second.")
    assert cli("run", "worker.yaml", "go", "--ephemeral").out == "First.\n"
    assert not (keeper.home / "sessions").exists()
    cli("run", "worker.yaml", "go")
    before = last(keeper).read_bytes()
    assert cli("run", "worker.yaml", "more", "-c", "--ephemeral").out == "Second.\n"
    assert cli("run", "worker.yaml", "more", "-c", "--fork", "--ephemeral").out == "Second.\n"
    assert [path.read_bytes() for path in sessions(keeper)] == [before]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["-r", "nothing"], 3, "there is no session 'nothing'"),
        (["-c"], 3, "'keeper' has no session in "),
        (["-c", "-r", "x"], 2, "-c and -r contradict each other"),
        (["go", "--fork"], 2, "--fork copies a session"),
        (["-r", "script.jsonl"], 3, "there is no session"),
        (["-r", "data.jsonl"], 3, "the session data is empty"),
    ],
)
def test_resume_refuses_sessions_that_cannot_go_on(
    keeper, cli, words: list[str], code: int, sentence: str
) -> None:
    script(keeper, "Done.")
    data = keeper.write("data.jsonl", '{"a": "precious file with no newline at its end"}')
    before = data.read_text()
    done = cli("run", "worker.yaml", *words)
    assert (done.code, done.out) == (code, "")
    assert sentence in done.err
    assert data.read_text() == before
    assert sessions(keeper) == []


def test_worker_that_cannot_start_leaves_no_session(keeper, cli) -> None:
    assert cli("run", "worker.yaml", "go", "-m", "script:missing.yaml").code == 3
    assert sessions(keeper) == []


def test_session_belongs_to_its_worker(keeper, cli) -> None:
    script(keeper, "Done.")
    keeper.write("other.yaml", WORKER.replace("keeper", "other"))
    cli("run", "other.yaml", "go")
    before = last(keeper).read_bytes()
    done = cli("run", "worker.yaml", "more", "-r", last(keeper).stem)
    assert (done.code, done.out) == (2, "")
    assert (
        done.err == f"forge: session {last(keeper).stem} belongs to worker 'other', not 'keeper'\n"
    )
    assert last(keeper).read_bytes() == before


def test_last_session_is_that_of_this_worker_in_this_folder(keeper, cli) -> None:
    script(keeper, "{task}")
    keeper.write("other.yaml", WORKER.replace("keeper", "other"))
    for place in ("here", "there", "gone"):
        (keeper.folder / place).mkdir()

    def run(worker: str, place: str, *words: str) -> Path:
        assert cli("run", worker, "-C", place, *words).code == 0
        return last(keeper)

    mine = run("worker.yaml", "here", "one")
    theirs = run("worker.yaml", "there", "two")
    run("other.yaml", "here", "three")
    lost = run("worker.yaml", "gone", "four")
    (keeper.folder / "gone").rmdir()
    assert run("worker.yaml", "here", "-c", "more") == mine
    assert run("worker.yaml", "there", "-c", "more") == theirs
    newer = run("worker.yaml", "here", "five")
    assert run("worker.yaml", "here", "-c", "more") == newer
    assert run("worker.yaml", "here", "-r", mine.stem, "more") == mine
    assert run("worker.yaml", "here", "-c", "more") == mine
    (keeper.folder / "moved").mkdir()
    done = cli("run", "worker.yaml", "-C", "moved", "-c", "more")
    assert (done.code, last(keeper)) == (0, lost)
    assert (
        f"resuming the session {lost.stem} of {keeper.folder}/gone, which no longer exists"
        in done.err
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["-r", "-c"])
def test_session_of_a_moved_folder_is_resumed(keeper, cli, monkeypatch, how: str) -> None:
    script(
        keeper, calls(call("keep", text="a")), "First.", calls(call("keep", text="b")), "Second."
    )
    cli("run", "worker.yaml", "go")
    session = last(keeper).stem
    home, moved = keeper.home, keeper.folder.parent / "elsewhere"
    keeper.folder.rename(moved)
    monkeypatch.chdir(moved)
    monkeypatch.setenv("FORGE_HOME", str(home))
    done = cli("run", "worker.yaml", *(["-r", session] if how == "-r" else ["-c"]), "more")
    assert (done.code, done.out) == (0, "Second.\n")
    assert (moved / "notes.txt").read_text() == "a\nb\n"
    assert [path.stem for path in (home / "sessions").glob("*.jsonl")] == [session]
    assert cli("run", "worker.yaml", "-c", "again").code == 0


# ---- soundness


def damaged(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_changed_log_is_refused(keeper, cli) -> None:
    script(keeper, "First.", "Second.")
    cli("run", "worker.yaml", "go")
    damaged(last(keeper), '"content": "go"', '"content": "stop"')
    before = last(keeper).read_bytes()
    for words in (["-c"], ["-c", "--fork"], ["-r", last(keeper).stem]):
        done = cli("run", "worker.yaml", "more", *words)
        assert (done.code, done.out) == (3, "")
        session = last(keeper).stem
        problem = "line 3: it was changed after it was written"
        hint = f"forge sessions show {session} prints its content"
        assert done.err == f"forge: the session {session} was tampered with: {problem}\n  {hint}\n"
    assert [path.read_bytes() for path in sessions(keeper)] == [before]


def test_log_of_another_version_is_refused(keeper, cli) -> None:
    script(keeper, "First.")
    cli("run", "worker.yaml", "go")
    damaged(last(keeper), '{"v": 1, "seq": 1', '{"v": 2, "seq": 1')
    done = cli("run", "worker.yaml", "more", "-c")
    assert done.code == 3
    assert "has log version 2, which this version of forge cannot read" in done.err


def test_incomplete_line_is_dropped_and_reported(keeper, cli) -> None:
    script(keeper, "First.", "Second.")
    cli("run", "worker.yaml", "go")
    with last(keeper).open("ab") as file:
        file.write(b'{"v": 1, "seq": 8, "type": "mess')
    done = cli("run", "worker.yaml", "more", "-c")
    assert (done.code, done.out) == (0, "Second.\n")
    assert (
        f"forge: dropped the unfinished last line of the session {last(keeper).stem}\n" in done.err
    )
    assert [message.text for message in read_past(lines(keeper)).messages] == [
        "go",
        "First.",
        "more",
        "Second.",
    ]


# ---- other processes, the disk and the home


def test_unwritable_home_costs_only_the_session(keeper, cli, monkeypatch) -> None:
    script(keeper, calls(call("keep", text="a")), "Done.")
    home = keeper.write("home", "this is a file")
    monkeypatch.setenv("FORGE_HOME", str(home))
    done = cli("run", "worker.yaml", "go")
    assert (done.code, done.out, kept(keeper)) == (0, "Done.\n", ["a"])
    assert f"forge: this session will not be saved: {home}/sessions: Not a directory\n" in done.err


def test_ephemeral_session_cannot_park(keeper, cli, monkeypatch) -> None:
    script(keeper, calls(call("risk", text="a")), "{result}")
    refused = cli("run", "worker.yaml", "go", "--ephemeral", "--on-ask", "park")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("forge: --ephemeral and --on-ask park contradict each other\n")
    kept_elsewhere = cli(
        "run", "worker.yaml", "go", "--ephemeral", "--on-ask", "park", "--record", "record.jsonl"
    )
    assert kept_elsewhere.code == 10
    assert cli("run", "worker.yaml", "-r", "record.jsonl", "-y").out == "kept a\n"
    monkeypatch.setenv("FORGE_HOME", str(keeper.write("home", "this is a file")))
    done = cli("run", "worker.yaml", "go", "--on-ask", "park")
    assert (done.code, done.out) == (
        0,
        "risk was not called; denied: forge could not ask (not interactive)\n",
    )
    assert "forge: nothing can be parked without a session: calls that ask are denied\n" in done.err


def test_session_without_a_writable_log_resumes_only_with_ephemeral(keeper, cli) -> None:
    script(keeper, "First.", "Second.")
    cli("run", "worker.yaml", "go")
    before, lock = last(keeper).read_bytes(), last(keeper).with_name(f".{last(keeper).name}.lock")
    lock.mkdir()
    done = cli("run", "worker.yaml", "more", "-c")
    assert (done.code, done.out, last(keeper).read_bytes()) == (1, "", before)
    assert done.err == (
        f"forge: the session {last(keeper).stem} cannot be resumed: its log cannot be written: {lock}: Is a directory\n"
        "  make it writable, or resume a copy with --fork; --ephemeral resumes it without saving the rest\n"
    )
    aloud = cli("run", "worker.yaml", "more", "-c", "--ephemeral")
    assert (aloud.code, aloud.out, last(keeper).read_bytes()) == (0, "Second.\n", before)


def test_fork_without_a_writable_log_is_refused(keeper, cli, monkeypatch) -> None:
    script(keeper, "First.", "Second.")
    cli("run", "worker.yaml", "go")
    log = str(last(keeper))
    monkeypatch.setenv("FORGE_HOME", str(keeper.write("home", "this is a file")))
    done = cli("run", "worker.yaml", "more", "-r", log, "--fork")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("forge: the session cannot be saved: ")


def test_unreported_answer_is_reported_on_resume(keeper, cli) -> None:
    """Killed between the last answer and the end of the session: nothing is asked again, and the loop ends."""
    script(keeper, "The answer.", "Another one.")
    cli("run", "worker.yaml", "go")
    whole = last(keeper).read_text().splitlines(keepends=True)
    for lost in (1, 2):
        assert json.loads(whole[-1])["type"] == "sessionEnd"
        last(keeper).write_text("".join(whole[:-lost]))
        done = cli("run", "worker.yaml", "-c", "--output-format", "json")
        result = json.loads(done.out)
        assert (done.code, result["status"], result["response"], result["turns"]) == (
            0,
            "completed",
            "The answer.",
            0,
        )
        assert lines(keeper)[-1].type == "sessionEnd"
        assert cli("run", "worker.yaml", "-c").code == 2
    assert cli("run", "worker.yaml", "-c", "more").out == "Another one.\n"


def test_invalid_answer_is_repaired_on_resume(keeper, cli) -> None:
    schema = keeper.write("schema.json", '{"type": "object", "required": ["n"]}')
    script(keeper, '{"m": 1}', '{"n": 2}')
    cli("run", "worker.yaml", "go", "--output-schema", str(schema))
    whole = last(keeper).read_text().splitlines(keepends=True)
    first = next(
        number for number, line in enumerate(whole) if json.loads(line)["type"] == "turnEnd"
    )
    last(keeper).write_text("".join(whole[: first + 1]))
    done = cli("run", "worker.yaml", "-c", "--output-format", "json")
    assert (done.code, json.loads(done.out)["output"]) == (0, {"n": 2})


@pytest.mark.long
def test_second_process_is_refused_with_the_id_of_the_first(keeper, start, cli) -> None:
    script(keeper, "First.", calls(call("hold", text="x")), "Never.")
    cli("run", "worker.yaml", "go")
    session = last(keeper).stem
    first = start("run", "worker.yaml", "-c", "more", "--trace", "normal", cold=True)
    first.wait_for("holding")
    sentence = f"the session {session} is in use by process {first.process.pid}\n"
    refused = [["run", "worker.yaml", "-r", session, "x"], ["run", "worker.yaml", "-c", "x"]]
    refused += [["sessions", "rm", session]]
    done = cli("approvals", "answer", session, "x", "yes")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"forge: the session {session} has no pending request 'x'\n"
        f"  process {first.process.pid} is working on it and asks nothing now\n"
    )
    for words in refused:
        done = cli(*words)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"forge: {sentence}")
        assert ("--fork" in done.err) == (words[0] != "sessions")
    row = json.loads(cli("sessions", "list", "--json").out)[0]
    assert (row["status"], row["pid"]) == ("running", first.process.pid)
    assert (
        cli("run", "worker.yaml", "-r", session, "--fork", "x", "-m", "script:other.yaml").code == 3
    )
    script(keeper, "A copy.", name="other.yaml")
    assert (
        cli("run", "worker.yaml", "-r", session, "--fork", "x", "-m", "script:other.yaml").out
        == "A copy.\n"
    )
    first.signal(signal.SIGINT)
    assert first.end().code == 130
    assert cli("run", "worker.yaml", "-r", session, "x", "-m", "script:other.yaml").code == 0


def limited(project: Project, *words: str, size: int) -> subprocess.CompletedProcess[str]:
    """forge with a disk on which no file can grow beyond this size."""
    return subprocess.run(
        [sys.executable, "-m", "forge_cli", *words],
        cwd=project.folder,
        env={**os.environ, "FORGE_HOME": str(project.home), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "size",
    [0, 2500, *(pytest.param(size, marks=pytest.mark.long) for size in (300, 4000, 6000, 7000))],
)
def test_full_disk_stops_the_work_and_it_resumes_when_there_is_room(keeper, cli, size: int) -> None:
    script(keeper, *(calls(call("keep", text=f"n{number}")) for number in range(3)), "Done.")
    cli("run", "worker.yaml", "--help")
    done = limited(keeper, "run", "worker.yaml", "go", "--output-format", "json", size=size)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    lost = r"forge: the session's log cannot be written any more: (File too large|the disk is full)\n  make room for "
    assert re.search(lost, done.stderr)
    if not sessions(keeper):
        assert (size <= 300, kept(keeper), " -r " in done.stderr) == (True, [], False)
        return
    assert json.loads(done.stdout)["status"] == "failed"
    run_before = kept(keeper)
    decided = [line.data["toolCallId"] for line in lines(keeper) if line.type == "approvalDecided"]
    assert len(run_before) <= len(decided), "a call ran whose approval was not written down"
    again = cli("run", "worker.yaml", "-c", "-y")
    assert (again.code, again.out) == (0, "Done.\n")
    assert len(kept(keeper)) == len(set(kept(keeper))), "a call ran twice"


# ---- cut off


def test_killed_call_is_reported_on_resume(keeper, start, cli) -> None:
    repeated = calls(call("hold", text="x"), call("look", at="y"), text="Once more.")
    script(
        keeper,
        calls(call("keep", text="a"), call("hold", text="x"), call("keep", text="b")),
        repeated,
        "{results[0]}",
    )
    forge = start("run", "worker.yaml", "go", "--trace", "normal")
    forge.wait_for("holding")
    forge.signal(signal.SIGKILL)
    forge.end()
    assert kept(keeper) == ["a", "x"]
    row = json.loads(cli("sessions", "list", "--json").out)[0]
    assert (row["status"], row["pid"], row["toolCalls"]) == ("interrupted", None, 2)
    done = cli("run", "worker.yaml", "-c")
    assert done.code == 0
    why = "hold was not called; denied: forge could not ask (not interactive)"
    assert done.out == f"{why}\n"
    asked = next(line for line in lines(keeper) if line.type == "approvalRequired")
    assert asked.data["reason"] == "hold was interrupted with these arguments and may have run"
    assert results(keeper) == [
        *(("keep", "success"), ("hold", "interrupted"), ("keep", "interrupted")),
        *(("hold", "denied"), ("look", "success")),
    ]
    assert kept(keeper) == ["a", "x"]


def test_other_arguments_are_another_call(keeper, start, cli) -> None:
    script(
        keeper,
        calls(call("hold", text="x")),
        calls(call("keep", text="x"), call("keep", text="z")),
        "Done.",
    )
    forge = start("run", "worker.yaml", "go", "--trace", "normal")
    forge.wait_for("holding")
    forge.signal(signal.SIGKILL)
    forge.end()
    assert cli("run", "worker.yaml", "-c").out == "Done.\n"
    assert kept(keeper) == ["x", "x", "z"]


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_call_is_reported_on_resume(
    keeper, start, cli, number: signal.Signals, code: int
) -> None:
    script(
        keeper, calls(call("hold", text="x"), call("keep", text="b")), "{results[0]} {results[1]}"
    )
    forge = start("run", "worker.yaml", "go", "--trace", "normal")
    forge.wait_for("holding")
    forge.signal(number)
    assert forge.end().code == code
    assert json.loads(cli("sessions", "list", "--json").out)[0]["status"] == "interrupted"
    done = cli("run", "worker.yaml", "-c")
    assert (done.code, done.out) == (0, '{"type": "interrupted"} {"type": "interrupted"}\n')
    assert results(keeper) == [("hold", "interrupted"), ("keep", "interrupted")]


def test_interrupted_call_asks_again_although_pre_approved(keeper, start, cli) -> None:
    again = calls(call("hold", text="x"))
    script(keeper, calls(call("hold", text="x")), again, again, "Done.")
    forge = start("run", "worker.yaml", "go", "--trace", "normal")
    forge.wait_for("holding")
    forge.signal(signal.SIGKILL)
    forge.end()
    assert cli("run", "worker.yaml", "-c", "--on-ask", "park").code == 10
    (request,) = pending(cli)
    assert request["reason"] == "hold was interrupted with these arguments and may have run"
    cli("approvals", "answer", request["session"], request["request"], "no", "leave it")
    done = cli("run", "worker.yaml", "-c")
    assert (done.code, done.out) == (0, "Done.\n")
    assert results(keeper)[1:] == [("hold", "denied"), ("hold", "denied")]
    assert kept(keeper) == ["x"]


# ---- secrets


def test_secrets_never_reach_the_log(keeper, cli, monkeypatch) -> None:
    secret, shape = "correct horse battery staple", "ghp_" + "a1B2c3D4" * 5
    monkeypatch.setenv("SHOP_TOKEN", secret)
    script(keeper, calls(call("keep", text=f"{secret}/{shape}")), "I kept {result}", "Again {task}")
    cli("run", "worker.yaml", f"keep {secret}")
    assert cli("run", "worker.yaml", "-c", shape).out == "Again [redacted:github]\n"
    text = last(keeper).read_text()
    assert secret not in text
    assert shape not in text
    assert "keep [redacted:SHOP_TOKEN]" in text
    assert "[redacted:github]" in text


def test_parked_call_with_a_secret_is_denied(keeper, cli, monkeypatch) -> None:
    secret = "correct horse battery staple"
    monkeypatch.setenv("SHOP_TOKEN", secret)
    script(
        keeper,
        calls(call("risk", text=secret), call("risk", text="plain")),
        "{results[0]} / {results[1]}",
    )
    assert cli("run", "worker.yaml", "go", "--on-ask", "park").code == 10
    assert [(row["args"], row["heldSecret"]) for row in pending(cli)] == [
        ({"text": "[redacted:SHOP_TOKEN]"}, True),
        ({"text": "plain"}, False),
    ]
    for row in pending(cli):
        done = cli("approvals", "answer", row["session"], row["request"], "yes")
        assert ("it will be denied" in done.out) is row["heldSecret"]
    done = cli("run", "worker.yaml", "-c", "-y")
    why = "risk was not called; denied: its input contained a secret, which the session log does not contain"
    assert (done.code, done.out) == (0, f"{why} / kept plain\n")
    assert kept(keeper) == ["plain"]


# ---- parked


def parked(project: Project, cli: Callable[..., Any], *turns: Any) -> list[dict[str, Any]]:
    script(project, *turns)
    assert cli("run", "worker.yaml", "go", "--on-ask", "park").code == 10
    return pending(cli)


def answer(cli: Callable[..., Any], row: dict[str, Any], *words: str) -> None:
    done = cli("approvals", "answer", row["session"], row["request"], *words)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(("on_ask", "code"), [("park", 10), ("fail", 4)])
def test_task_delayed_by_an_open_call_is_reported(keeper, cli, on_ask: str, code: int) -> None:
    parked(keeper, cli, calls(call("risk", text="x")), "{task}")
    done = cli(
        "run", "worker.yaml", "And more.", "-c", "--on-ask", on_ask, "--output-format", "json"
    )
    assert done.code == code
    lost = "\n  the new task was not begun; give it again when you resume the session"
    assert done.err.rstrip("\n").endswith(lost)
    assert json.loads(done.out)["error"].endswith(lost)
    assert (
        "not begun"
        not in cli("run", "worker.yaml", "-c", "--on-ask", "park", "--max-turns", "1").err
    )
    assert "And more." not in sessions(keeper)[0].read_text()


THREE = calls(*(call("risk", text=text) for text in "abc"))
TOLD = "{results[0]} | {results[1]} | {results[2]}"


def test_given_answers_count_and_other_calls_are_denied(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[0], "yes")
    answer(cli, rows[1], "no", "use a smaller one")
    done = cli("run", "worker.yaml", "-c")
    refused = "risk was not called; the user said no: use a smaller one"
    unanswered = "risk was not called; denied: forge could not ask (not interactive)"
    assert (done.code, done.out) == (0, f"kept a | {refused} | {unanswered}\n")
    assert kept(keeper) == ["a"]
    decided = [line for line in lines(keeper) if line.type == "approvalDecided"]
    assert [(line.data["by"], line.data["requestId"]) for line in decided] == [
        *(
            ("user", rows[0]["request"]),
            ("user", rows[1]["request"]),
            ("headless", rows[2]["request"]),
        )
    ]


def test_approve_all_does_not_override_a_no(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[1], "no")
    done = cli("run", "worker.yaml", "-c", "-y")
    assert done.out == "kept a | risk was not called; the user said no | kept c\n"
    assert kept(keeper) == ["a", "c"]


def test_new_policy_does_not_override_a_no(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[0], "no", "really not")
    answer(cli, rows[1], "yes")
    keeper.write(
        "tools.py", TOOLS.replace("@tool(effects={Effect.WRITE})", "@tool(needs_approval=False)")
    )
    done = cli("run", "worker.yaml", "-c")
    assert done.out == "risk was not called; the user said no: really not | kept b | kept c\n"


def test_resumed_call_that_is_blocked_now_stays_blocked(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[0], "yes")
    custom = "tools: [keep, risk, hold, look]"
    keeper.write(
        "worker.yaml", WORKER.replace(custom, f"{custom}, approval: {{tools: {{risk: blocked}}}}")
    )
    done = cli("run", "worker.yaml", "-c", "-y")
    assert done.out.count("risk is blocked") == 3
    assert kept(keeper) == []


def test_session_parked_again_keeps_its_requests_and_answers(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[2], "yes")
    for _ in range(2):
        assert cli("run", "worker.yaml", "-c", "--on-ask", "park").code == 10
        now = pending(cli)
        assert [row["request"] for row in now] == [row["request"] for row in rows]
        assert [row["answer"] for row in now] == [None, None, {"approved": True, "note": None}]
    answer(cli, rows[0], "yes")
    assert cli("run", "worker.yaml", "-c", "--on-ask", "park").code == 10
    assert [row["request"] for row in pending(cli)] == [rows[1]["request"], rows[2]["request"]]
    assert kept(keeper) == ["a"]
    assert cli("run", "worker.yaml", "-c", "-y").out == "kept a | kept b | kept c\n"


def test_parked_approval_covers_only_the_file_that_was_shown(keeper, cli) -> None:
    keeper.write("page.txt", "old\n")
    write = calls(call("write_file", path="/workspace/page.txt", content="new\n"))
    (row,) = parked(keeper, cli, write, "{result}")
    answer(cli, row, "yes")
    keeper.write("page.txt", "changed by somebody else\n")
    done = cli("run", "worker.yaml", "-c")
    assert "warning: write_file changed since it was approved, so it asks again\n" in done.err
    assert done.out == "write_file was not called; denied: forge could not ask (not interactive)\n"
    assert keeper.read("page.txt") == "changed by somebody else\n"


@pytest.mark.long
def test_changed_request_can_be_parked_and_answered_again(keeper, cli) -> None:
    keeper.write("page.txt", "old\n")
    write = calls(call("write_file", path="/workspace/page.txt", content="new\n"))
    (row,) = parked(keeper, cli, write, "Done.")
    answer(cli, row, "yes")
    keeper.write("page.txt", "changed by somebody else\n")
    assert cli("run", "worker.yaml", "-c", "--on-ask", "park").code == 10
    (again,) = pending(cli)
    assert (again["request"], again["answer"]) == (row["request"], None)
    assert again["preview"]["original"] == "changed by somebody else\n"
    answer(cli, again, "yes")
    assert cli("run", "worker.yaml", "-c").out == "Done.\n"
    assert keeper.read("page.txt") == "new\n"


def test_missing_tool_cannot_be_called(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[0], "yes")
    keeper.write("worker.yaml", WORKER.replace("risk, ", ""))
    done = cli("run", "worker.yaml", "-c", "-y")
    assert done.code == 0
    assert done.out.count("there is no tool 'risk'") == 3


def test_fork_of_a_parked_session_has_its_own_requests(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[0], "yes")
    assert cli("run", "worker.yaml", "-c", "--fork", "--on-ask", "park").code == 10
    assert kept(keeper) == []
    by_session = {
        session: [row["request"] for row in pending(cli) if row["session"] == session]
        for session in (last(keeper).stem, rows[0]["session"])
    }
    requests = [row["request"] for row in rows]
    assert by_session == {last(keeper).stem: requests, rows[0]["session"]: requests}


def test_parked_approval_is_not_used_up_by_an_ephemeral_run(keeper, cli) -> None:
    (row,) = parked(keeper, cli, calls(call("risk", text="a")), "{result}")
    answer(cli, row, "yes")
    unkept = cli("run", "worker.yaml", "-r", row["session"], "--ephemeral", "-p")
    assert "risk was not called; denied" in unkept.out
    assert cli("run", "worker.yaml", "-r", row["session"], "-p").out == "kept a\n"


def test_parked_approval_covers_only_the_tool_of_that_time(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, TOLD)
    answer(cli, rows[0], "yes")
    keeper.write("tools.py", TOOLS.replace('f"kept {text}"', 'f"done with {text}"'))
    done = cli("run", "worker.yaml", "-c")
    assert "risk changed since it was approved" in done.err
    assert kept(keeper) == []


def test_unchanged_file_is_written(keeper, cli) -> None:
    keeper.write("page.txt", "old\n")
    write = calls(call("write_file", path="/workspace/page.txt", content="new\n"))
    (row,) = parked(keeper, cli, write, "Done.")
    answer(cli, row, "yes")
    assert cli("run", "worker.yaml", "-c").out == "Done.\n"
    assert keeper.read("page.txt") == "new\n"


def test_calls_that_need_no_answer_wait_for_their_turn(keeper, cli) -> None:
    turn = calls(
        call("keep", text="a"), call("risk", text="b"), call("keep", text="c"), call("look", at="d")
    )
    (row,) = parked(keeper, cli, turn, "{results[3]}")
    assert kept(keeper) == ["a"]
    answer(cli, row, "yes")
    assert cli("run", "worker.yaml", "-c").out == "seen d\n"
    assert kept(keeper) == ["a", "b", "c"]


def test_task_can_follow_the_answers(keeper, cli) -> None:
    rows = parked(keeper, cli, THREE, "Now: {task}")
    answer(cli, rows[0], "yes")
    assert cli("run", "worker.yaml", "-c", "something else").out == "Now: something else\n"


def test_session_grant_does_not_outlive_the_session(keeper) -> None:
    twice = calls(call("risk", text="a"), call("risk", text="a"))
    seen = keeper.run(twice, "Done.", answers=[ApprovalDecision(True, remember="session")])
    assert seen.statuses == ["success", "success"]
    recorded = seen.record
    again = keeper.run(
        *(twice, "Done."),
        task="again",
        answers=[False, False],
        resume=Resumed(read_past(recorded), recorded[-1]),
    )
    assert again.statuses == ["denied", "denied"]
    assert len(again.asked) == 2


def test_model_of_the_session_is_the_default_on_resume(keeper, cli) -> None:
    script(keeper, calls(call("risk", text="a")), "{result}")
    worker = keeper.read("worker.yaml")
    unnamed = "\n".join(line for line in worker.splitlines() if not line.startswith("model:"))
    keeper.write("worker.yaml", unnamed)
    named = worker.partition("model: ")[2].partition("\n")[0]
    assert cli("run", "worker.yaml", "go", "-m", named, "--on-ask", "park").code == 10
    done = cli("run", "worker.yaml", "-c", "-y", "-p")
    assert (done.code, done.out) == (0, "kept a\n")


def test_unfinished_task_keeps_its_schema(keeper, cli) -> None:
    script(keeper, calls(call("risk", text="a")), '{"n": 1}')
    keeper.write("schema.json", '{"type": "object", "required": ["n"]}')
    assert (
        cli("run", "worker.yaml", "go", "--output-schema", "schema.json", "--on-ask", "park").code
        == 10
    )
    done = cli("run", "worker.yaml", "-c", "-y", "--output-format", "json")
    assert json.loads(done.out)["output"] == {"n": 1}


def test_waiting_calls_are_counted(keeper, cli) -> None:
    script(keeper, THREE, TOLD)
    done = cli("run", "worker.yaml", "go", "--on-ask", "park", "--output-format", "json")
    assert (json.loads(done.out)["toolCalls"], done.code) == (3, 10)
