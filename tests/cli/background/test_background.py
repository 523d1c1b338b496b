"""Sessions in the background: their process, questions, messages, ends, and starting them again.

Covers forge_cli.cli.background.start, forge_cli.cli.background.work,
forge_cli.cli.background.common, forge_cli.cli.background.places, forge_cli.cli.background.stop, forge_cli.cli.background.send,
forge_cli.cli.background.logs, forge_cli.cli.background.answering, forge_cli.cli.sessions.resume,
forge_cli.record.runs, forge_cli.record.states, forge_cli.record.unfinished,
forge_cli.engine.runtime.unattended, forge_cli.apps.chat.attach, forge_cli.ui.terminal.follow.
"""

import json
import os
import signal
import stat
from pathlib import Path

import anyio
import pytest

from forge_cli.core.actions import UserInput
from forge_cli.core.bus import EventBus
from forge_cli.core.events import ApprovalRequired
from forge_cli.core.interrupt import Parked
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.runtime.unattended import Unattended
from forge_cli.record.runs import WaitingMessages
from tests.support.approval import new_request
from tests.support.background import CLEAR, DEADLINE, HOLD, TOOLS, WORKER, wait_for


def test_session_has_a_process_of_its_own_and_asks_until_it_is_answered(background) -> None:
    session = background.start(CLEAR, "{text: 'I say {result}.'}")
    row = background.until(session, "asks")
    assert row["now"].startswith("clear: ")
    assert os.getsid(row["pid"]) == row["pid"]
    assert os.readlink(f"/proc/{row['pid']}/fd/0") == "/dev/null"
    run = background.project.home / "run"
    files = [path for path in run.iterdir() if not path.is_dir()]
    modes = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in files}
    assert modes == {".json": 0o600, ".out": 0o600, ".sock": 0o600}
    said = background.forge("approvals", "answer", session, "yes")
    assert said.endswith(f"the session {session} has taken it\n")
    row = background.until(session, "done")
    assert (row["status"], row["pid"], row["now"]) == ("completed", None, "")
    assert background.texts(session) == ["Go.", "I say all notes are gone."]
    assert background.project.read("cleared.txt") == "old\n"
    assert not list(run.glob("*.sock"))
    late = background.project.forge("approvals", "answer", session, "approval", "no")
    assert late.returncode == 1
    assert "is already answered: yes, by forge approvals answer" in late.stderr
    shown = background.forge("logs", session)
    assert "> Go.\n" in shown
    assert "I say all notes are gone.\n" in shown


def test_waiting_question_costs_no_time_of_a_processor(background) -> None:
    session = background.start(CLEAR, "{text: done}")
    pid = background.until(session, "asks")["pid"]
    before = processor_time(pid)
    for _ in range(3):  # time passes while other processes look
        background.row(session)
    assert processor_time(pid) - before < 0.1


def processor_time(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_messages_are_kept_and_read_after_the_current_work(background) -> None:
    os.mkfifo(background.project.folder / "gate")
    session = background.start(HOLD, "{text: 'first {result}'}", "{text: 'then {task}'}")
    wait_for((background.project.folder / "session.txt").exists)
    own, pid, is_terminal = background.project.read("session.txt").split()
    assert (own, is_terminal) == (pid, "False")
    assert background.row(session)["now"] == "hold"
    assert background.forge("send", session, "more").startswith(f"sent to {session}: it reads")
    (background.project.folder / "gate").write_text("free")
    background.until(session, "done")
    assert background.texts(session) == ["Go.", "first free", "more", "then more"]
    assert not list((background.project.home / "run").glob("*.messages"))


def test_message_starts_a_session_that_has_ended(background) -> None:
    session = background.start("{text: one}", "{text: 'two {task}'}")
    background.until(session, "done")
    background.ended(session)
    assert background.forge("send", session, "--", "-x").endswith("it has started again\n")
    wait_for(lambda: background.texts(session)[-1:] == ["two -x"])
    background.ended(session)


def test_parked_session_starts_again_with_its_last_answer(background) -> None:
    turn = "{calls: [{tool: clear, input: {reason: a}}, {tool: clear, input: {reason: b}}]}"
    session = background.start(turn, "{text: '{results[0]}; {results[1]}'}")
    row = background.until(session, "asks")
    os.kill(row["pid"], signal.SIGKILL)
    background.ended(session)
    parked = background.project.forge("run", "worker.yaml", "-r", session, "-p", "--on-ask", "park")
    assert parked.returncode == 10
    assert background.row(session)["state"] == "parked"
    first, second = json.loads(background.forge("approvals", "list", session, "--json"))
    said = background.forge("approvals", "answer", session, first["request"], "yes")
    assert "still waits" in said
    assert background.row(session)["state"] == "parked"
    said = background.forge("approvals", "answer", session, second["request"], "no", "keep b")
    assert said.endswith("the session has started again in the background\n")
    background.until(session, "done")
    background.ended(session)
    assert background.project.read("cleared.txt") == "a\n"
    assert len(background.answers(session)) == 2


def test_killed_session_is_resumed_with_all_others(background) -> None:
    session = background.start(CLEAR, "{text: 'I say {result}.'}")
    row = background.until(session, "asks")
    os.kill(row["pid"], signal.SIGKILL)
    background.ended(session)
    assert background.row(session)["state"] == "failed"
    assert background.forge("sessions", "resume", "--all") == f"{session}\n"
    background.until(session, "asks")
    background.forge("approvals", "answer", session, "yes")
    background.until(session, "done")
    background.ended(session)
    assert background.forge("sessions", "resume", "--all") == ""
    assert background.project.read("cleared.txt") == "old\n"


@pytest.mark.parametrize("flags", [[], ["--now"]])
def test_stopped_session_ends_and_stays_as_it_is(background, flags: list[str]) -> None:
    session = background.start(CLEAR, "{text: done}")
    background.until(session, "asks")
    assert background.forge("stop", session, *flags) == f"stopped {session}\n"
    assert background.row(session)["state"] == "failed"
    assert background.forge("sessions", "resume", "--all") == ""
    again = background.project.forge("stop", session)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith(f"forge: the session {session} is not running\n")
    assert background.forge("sessions", "resume", session) == f"{session}\n"
    background.until(session, "done")


def test_session_that_cannot_begin_reports_why_and_leaves_nothing(background) -> None:
    background.project.write("tools.py", TOOLS)
    background.project.write("worker.yaml", WORKER.replace("script.yaml", "none.yaml"))
    done = background.project.forge("run", "worker.yaml", "Go.", "-b")
    assert (done.returncode, done.stdout) == (3, "")
    assert "none.yaml" in done.stderr
    assert [path.name for path in (background.project.home / "run").iterdir()] == ["places"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["-p"], "-p"),
        (["-i"], "-i"),
        (["--json"], "--json"),
        (["--output-format", "json"], "--output-format"),
        (["--ephemeral"], "--ephemeral"),
        (["--replay", "x"], "--replay"),
    ],
)
def test_flags_that_need_a_terminal_or_no_log_are_refused(cli, flags, named: str) -> None:
    done = cli("run", "worker.yaml", "Go.", "-b", *flags)
    assert done.code == 2
    assert f"-b and {named} contradict each other; keep one" in done.err


def test_session_of_a_terminal_is_not_steered(background) -> None:
    background.project.write("worker.yaml", WORKER)
    background.project.write("tools.py", TOOLS)
    background.project.write("script.yaml", "turns: [{text: one}]")
    assert background.project.forge("run", "worker.yaml", "Go.", "-p").returncode == 0
    for words in (["send", "last", "more"], ["attach", "last"], ["sessions", "resume", "last"]):
        done = background.project.forge(*words)
        assert done.returncode == 2
        assert "was not started in the background" in done.stderr


def test_explicit_on_ask_counts_and_nothing_waits(background) -> None:
    session = background.start(CLEAR, "{text: '{result}'}", more=("--on-ask", "deny"))
    background.until(session, "done")
    assert "was not called; denied" in background.texts(session)[-1]


def test_draft_waits_for_a_review(background) -> None:
    if background.project.forge("drafts", "list").returncode:
        pytest.skip("no drafts here")
    background.worker = """
name: writer
model: script:script.yaml
sandbox: {zones: [{name: output, path: output, mode: rw}]}
toolsets: {filesystem: {}}
"""
    (background.project.folder / "output").mkdir()
    turn = "{calls: [{tool: write_file, input: {path: /output/a.md, content: x}}]}"
    session = background.start(turn, "{text: written}", more=("--draft",))
    background.until(session, "ready")
    background.ended(session)
    assert not (background.project.folder / "output/a.md").exists()
    background.forge("drafts", "apply", "last")
    assert background.project.read("output/a.md") == "x"
    assert background.row(session)["state"] == "done"


def test_sessions_beyond_the_limit_wait_for_a_place(background) -> None:
    background.project.home.mkdir(exist_ok=True)
    (background.project.home / "config.yaml").write_text("background: 1\n")
    first = background.start(CLEAR, "{text: one}")
    background.until(first, "asks")
    second = background.start(CLEAR, "{text: two}")
    row = background.until(second, "working")
    assert row["now"] == "waits for another session to end"
    background.forge("stop", first)
    background.until(second, "asks")


# --- questions and messages in the process itself


def test_question_that_nobody_answers_parks_the_session(project, monkeypatch) -> None:
    monkeypatch.setenv("FORGE_HOME", str(project.home))

    async def main() -> list[str]:
        bus = EventBus()
        seen: list[str] = []
        bus.subscribe(lambda event: seen.append(event.type))
        unattended = Unattended(bus, WaitingMessages("s1"), park_after=0.01)
        end = unattended.attend()
        controller = ApprovalController(bus=bus, parks=True)
        with anyio.fail_after(DEADLINE), pytest.raises(Parked, match="push waits for an answer"):
            await controller.request_approval(new_request())
        end()
        return seen

    assert anyio.run(main) == [ApprovalRequired.type]


def test_messages_survive_and_are_taken_once(project, monkeypatch) -> None:
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    unattended = Unattended(EventBus(), WaitingMessages("s1"))
    assert unattended.take(UserInput("m", "one")).counted
    assert not unattended.take(UserInput("m", " ")).counted
    another = WaitingMessages("s1")
    assert another.all() == ["one"]
    assert unattended.next_message() == "one"
    another.drop_first()
    assert unattended.next_message() is None
    assert unattended.take(UserInput("m", "late")).reason == "the session has ended"
    assert another.all() == []


# --- on a terminal


def test_attached_terminal_answers_and_leaves_the_session_running(background, terminal) -> None:
    session = background.start(CLEAR, CLEAR, "{text: 'I say {result}.'}")
    background.until(session, "asks")
    keyboard = terminal("attach", session, TERM="xterm")
    keyboard.expect("Go.")
    keyboard.asked()
    keyboard.type("y")
    keyboard.expect("all notes are gone")
    keyboard.asked()
    keyboard.type("\x04")
    keyboard.expect("works on")
    assert keyboard.end() == 0
    assert background.row(session)["state"] == "asks"
    (answer,) = background.answers(session)
    assert (answer["approved"], answer["via"]) == (True, "forge attach")
    other = terminal("attach", session, TERM="xterm")
    other.asked()
    background.forge("approvals", "answer", session, "yes")
    other.expect("answered by forge approvals answer: yes")
    other.expect("the session has ended: completed")
    other.type("\x04")
    assert other.end() == 0


def test_attach_needs_a_terminal(background) -> None:
    session = background.start("{text: one}")
    background.until(session, "done")
    done = background.project.forge("attach", session)
    assert done.returncode == 2
    assert f"forge logs {session} -f prints what it does" in done.stderr
