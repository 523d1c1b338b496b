"""Writing a log: lines are on disk before they take effect, files are complete or missing, and have one writer.

Covers forge_cli.files.regular, forge_cli.files.lock, forge_cli.record.open and forge_cli.record.batch.
"""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.errors import WorkerError
from forge_cli.core.events import ApprovalDecided, SessionEnd, SessionStart, StatusEvent, TurnStart
from forge_cli.files.regular import read_regular
from forge_cli.record.batch import BatchLog
from forge_cli.record.log import read_session
from forge_cli.record.overview import session_overview
from forge_cli.record.places import (
    SessionLost,
    lock_file,
    lock_log,
    session_file,
    sessions_folder,
    unlock_log,
)
from forge_cli.record.recorder import Recorder, RecordLog, SessionLog
from forge_cli.sandbox.secrets import Redactor
from forge_cli.testing import Project, call, calls, scripted_model

SYNC = "forge_cli.files.lock.sync_data"
START = SessionStart("script:x", "/somewhere", "interactive", worker_file="/somewhere/worker.yaml")
WORKER = """
name: w
instructions: x
toolsets: {custom: {module: ./tools.py, tools: [on_disk, spoil], approval: {default: preApproved}}}
"""
TOOLS = '''
import json
import os
from pathlib import Path
from forge_cli import ToolContext, tool

HERE = Path(__file__).parent


@tool(effects=["write"])
def on_disk(context: ToolContext) -> str:
    """Say what a power cut would leave of this call."""
    lines = [json.loads(line) for line in (HERE / "disk").read_text().splitlines()]
    return " ".join(line["type"] for line in lines if line.get("toolCallId") == context.call_id)


@tool(effects=["write"])
def spoil(how: str) -> str:
    """Do something to the log of this very session."""
    (HERE / "spoilt").write_text(how)
    (log,) = (Path(os.environ["FORGE_HOME"]) / "sessions").glob("*.jsonl")
    if how == "remove":
        log.unlink()
    elif how == "replace":
        log.with_name("new").write_bytes(log.read_bytes())
        log.with_name("new").rename(log)
    elif how == "shrink":
        os.truncate(log, 100)
    else:
        with log.open("ab") as stream:
            stream.write(b"{}")
    return "spoilt"
'''


@pytest.fixture
def keeper(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("tools.py", TOOLS)
    return project


def recorder(log: RecordLog) -> Recorder:
    return Recorder(log, session=log.path.stem, worker="w", redactor=Redactor({}))


def disk(place: Path) -> Callable[[int], None]:
    """A disk that keeps only the data written before its sync."""
    return lambda descriptor: place.write_bytes(os.pread(descriptor, 1 << 30, 0)) and None


def types(place: Path) -> list[str]:
    return [json.loads(line)["type"] for line in place.read_text().splitlines()]


def test_approval_is_on_disk_before_the_call_and_its_result_before_the_next_request(
    keeper: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = keeper.folder / "disk"
    asked: list[list[str]] = []

    class Watching:
        name, context_window = "test:watching", None
        inner = scripted_model(calls(call("on_disk"), call("on_disk")), "Done.")

        def stream(self, request: Any) -> Any:
            asked.append(types(place))
            return self.inner.stream(request)

        async def aclose(self) -> None:
            pass

    monkeypatch.setattr(SYNC, disk(place))
    with keeper.environment(), SessionLog.create(session_file("s1")) as log:
        seen = keeper.run(model=Watching(), sinks=(log,))
        assert place.read_bytes() == log.path.read_bytes(), (
            "something of a session that has ended is lost"
        )
    assert [outcome.value.text() for outcome in seen.outcomes] == [
        "toolStarted approvalDecided"
    ] * 2
    assert [types.count("toolResult") for types in asked] == [0, 2]
    assert types(place)[-1] == "sessionEnd"


@pytest.mark.anyio
async def test_batch_item_log_waits_for_the_disk_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, approved = (
        tmp_path / "disk",
        ApprovalDecided("c", "ask", True, "user", None, None, "", cached=False),
    )
    monkeypatch.setattr(SYNC, disk(place))
    with BatchLog.create(session_file("s1")) as log:
        write = recorder(log)
        write(START)
        write(approved)
        assert types(log.path) == ["sessionStart", "approvalDecided"]
        assert not place.exists()
        await log.keep()
        assert types(place) == ["sessionStart", "approvalDecided"]


@pytest.mark.anyio
async def test_batch_item_log_is_lost_when_the_disk_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(SYNC, broken)
    with BatchLog.create(session_file("s1")) as log:
        write = recorder(log)
        write(TurnStart(1, "", ()))
        with pytest.raises(SessionLost, match="cannot be written any more: Input/output error"):
            await log.keep()
        with pytest.raises(SessionLost):
            write(START)


def test_failing_disk_stops_the_work(keeper: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(descriptor: int) -> None:
        if b"approvalDecided" in os.pread(descriptor, 1 << 20, 0):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(SYNC, broken)
    with keeper.environment(), SessionLog.create(session_file("s1")) as log:
        seen = keeper.run(calls(call("spoil", how="remove")), "Done.", sinks=(log,))
    assert (seen.result.status, seen.result.exit_code) == ("failed", 1)
    assert "the session's log cannot be written any more: Input/output error" in (
        seen.result.error or ""
    )
    assert not (keeper.folder / "spoilt").exists()


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("remove", "removed"),
        ("replace", "removed"),
        ("shrink", "changed by somebody else"),
        ("add", "changed by somebody else"),
    ],
)
def test_log_damaged_meanwhile_stops_the_work_before_the_next_effect(
    keeper: Project, how: str, what: str
) -> None:
    with keeper.environment(), SessionLog.create(session_file("s1")) as log:
        turns = calls(call("spoil", how=how), call("spoil", how="again"))
        seen = keeper.run(turns, "Done.", sinks=(log,))
    assert (seen.result.status, seen.result.exit_code) == ("failed", 1)
    sentence = f"the session's log was {what} while it was written: {log.path}\n  some events"
    assert (seen.result.error or "").startswith(sentence)
    assert keeper.read("spoilt") == how


def test_existing_session_is_never_overwritten() -> None:
    with SessionLog.create(session_file("s1")) as log:
        recorder(log)(START)
    before = log.path.read_bytes()
    with (
        SessionLog.create(session_file("s1")) as log,
        pytest.raises(SessionLost, match="File exists"),
    ):
        recorder(log)(START)
    assert (log.path.read_bytes(), os.listdir(log.path.parent)) == (before, ["s1.jsonl"])


def test_reader_that_probes_the_lock_is_not_taken_for_the_owner() -> None:
    """A new session meets another process that just holds the lock, without a name, to see whether it is free."""
    path = sessions_folder() / "s1.jsonl"
    path.parent.mkdir(parents=True)
    held = lock_log(path)
    os.ftruncate(held, 0)
    timer = threading.Timer(0.05, lambda: os.close(held))
    timer.start()
    unlock_log(path, lock_log(path))
    timer.join()
    assert os.listdir(path.parent) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["fifo", "folder", "dangling", "loop", "device"])
def test_special_file_does_not_block_readers(project: Project, kind: str) -> None:
    project.write("worker.yaml", "name: w\ninstructions: x\nmodel: script:script.yaml\n")
    project.write("script.yaml", "turns: [{text: Done.}]")
    assert project.forge("run", "worker.yaml", "go").returncode == 0
    odd = project.home / "sessions" / "29990101-000000-odd.jsonl"
    match kind:
        case "fifo":
            os.mkfifo(odd)
        case "folder":
            odd.mkdir()
        case "dangling":
            odd.symlink_to("nowhere")
        case "loop":
            odd.symlink_to(odd.name)
        case "device":
            odd.symlink_to("/dev/zero")
    if kind == "fifo":
        os.mkfifo(lock_file(odd))
    commands = [
        ["sessions", "list"],
        ["sessions", "verify"],
        ["sessions", "search", "go"],
        ["approvals", "list"],
    ]
    for command in commands:
        done = project.forge(*command)
        assert (done.returncode, "odd" in f"{done.stdout}{done.stderr}") == (0, False), command
    assert project.forge("sessions", "show", "29990101").returncode == 3
    assert project.forge("sessions", "show", "last").returncode == 0
    assert project.forge("run", "worker.yaml", "-c", "more", "-p").returncode in (0, 1)
    with pytest.raises(WorkerError):
        session_overview(odd)
    with pytest.raises(WorkerError):
        read_session(odd)
    with pytest.raises(OSError, match=r".*"):
        read_regular(odd)


def test_events_of_another_thread_are_last_in_the_log() -> None:
    with SessionLog.create(session_file("s1")) as log:
        write = recorder(log)
        write(START)
        taken, over = threading.Event(), threading.Event()

        def watch() -> None:
            assert write.take_over([SessionEnd({"status": "interrupted"})])
            taken.set()
            over.wait(20)

        watching = threading.Thread(target=watch)
        watching.start()
        assert taken.wait(20)
        with pytest.raises(SessionLost, match="another thread is blocking"):
            write(StatusEvent("info", "late"))
        over.set()
        watching.join()
        assert [line.type for line in read_session(log.path).lines] == [
            "sessionStart",
            "sessionEnd",
        ]
