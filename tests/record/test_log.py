"""The log on disk: written lines stay readable after faults of process, disk or file.

Covers forge_cli.record.log, forge_cli.record.overview.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli import WorkerResult, WorkerRuntime, load_worker
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import Event, SessionEnd, SessionStart, StatusEvent
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.hooks import TextDelta
from forge_cli.process.signals import in_loop
from forge_cli.record.batch import log_exists
from forge_cli.record.line import Line
from forge_cli.record.log import (
    broken_link,
    damage_of,
    find_own_session,
    find_session,
    read_readable,
    read_session,
    session_files,
)
from forge_cli.record.places import (
    SessionLost,
    lock_holder,
    lock_log,
    new_session_id,
    session_file,
    sessions_folder,
    unlock_log,
)
from forge_cli.record.recorder import Recorder, SessionLog
from forge_cli.sandbox.secrets import Redactor
from forge_cli.testing import Project, call, calls

START = SessionStart("script:x", "/somewhere", "interactive", worker_file="/somewhere/worker.yaml")


def keep(*events: Event, session: str = "s1", **environ: str) -> Path:
    """A session of these events, written as a worker writes it."""
    with SessionLog.create(session_file(session)) as log:
        recorder = Recorder(log, session=session, worker="w", redactor=Redactor(environ))
        for event in events:
            recorder(event)
    return log.path


def said(*words: str) -> list[Event]:
    return [START, *(StatusEvent("info", word) for word in words)]


def go_on(path: Path, *events: Event) -> None:
    log, read = SessionLog.resume(path)
    with log:
        last = read.lines[-1]
        recorder = Recorder(log, session=path.stem, worker="w", redactor=Redactor({}), after=last)
        for event in events:
            recorder(event)


def words(path: Path) -> list[str]:
    return [line.data["message"] for line in read_session(path).lines if line.type == "status"]


def test_session_is_a_file_readable_only_by_its_owner() -> None:
    path = keep(*said("a", "b"))
    assert path == sessions_folder() / "s1.jsonl"
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [1, 2, 3]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert os.listdir(path.parent) == ["s1.jsonl"]
    read = read_session(path)
    assert (read.session, read.dropped, broken_link(read)) == ("s1", False, None)


@given(st.data())
def test_truncated_log_loses_only_its_last_line(data: st.DataObject) -> None:
    path = keep(*said("a", "zwölf\nLinien", "c"), session=new_session_id())
    whole = path.read_bytes()
    length = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:length])
    read = read_session(path)
    assert len(read.lines) == whole[:length].count(b"\n")
    assert (read.dropped, broken_link(read)) == (length > read.size, None)
    if read.lines:
        go_on(path, StatusEvent("info", "again"))
        again = read_session(path)
        assert len(again.lines) == len(read.lines) + 1
        assert (again.dropped, broken_link(again)) == (False, None)


@given(st.data())
def test_changed_byte_is_detected(data: st.DataObject) -> None:
    path = keep(*said("a", "b"), session=new_session_id())
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != whole[place]))
    before = [json.loads(line) for line in whole.splitlines()]
    whole[place] = byte
    path.write_bytes(whole)
    try:
        read = read_session(path)
    except WorkerError as error:
        assert error.where is not None
    else:
        same = [line.data for line in read.lines] == before[: len(read.lines)]
        assert broken_link(read) is not None or (
            same and (read.dropped or len(read.lines) == len(before))
        )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda lines: lines[:1] + lines[2:], "line 2: sequence number 3, expected 2"),
        (lambda lines: [lines[0], lines[2], lines[1]], "line 2: sequence number 3, expected 2"),
        (lambda lines: [lines[0], lines[0], *lines[1:]], "line 2: sequence number 1, expected 2"),
        (
            lambda lines: [lines[0], {**lines[1], "message": "other"}],
            "line 2: it was changed after it was written",
        ),
        (
            lambda lines: [lines[0], _sealed({**lines[1], "prev": "0" * 64})],
            "line 2: it does not match the hash of the previous line",
        ),
        (
            lambda lines: [{**lines[0], "model": "\ud800", "hash": None}],
            "line 1: it was changed after it was written",
        ),
        (lambda lines: [_without_hash(lines[0])], "line 1: it was changed after it was written"),
    ],
)
def test_broken_chain_is_reported_at_its_line(change: Any, problem: str) -> None:
    path = keep(*said("a", "b"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))
    assert broken_link(read_session(path)) == problem


def _sealed(line: dict[str, Any]) -> dict[str, Any]:
    return Line(line).copied(line["session"], Line({**line, "hash": line["prev"]})).data


def _without_hash(line: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key != "hash"}


@pytest.mark.parametrize(
    "garbage",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"seq": "1", "type": "x"}',
        b"\x00\x00",
        b"[" * 100_000,
        b"9" * 5000,
    ],
)
def test_invalid_line_is_named_by_its_place(garbage: bytes) -> None:
    path = keep(*said("a"))
    first, second = path.read_bytes().splitlines()
    path.write_bytes(first + b"\n" + garbage + b"\n" + second + b"\n")
    with pytest.raises(WorkerError, match=rf"{path}:2:1: not a line of a session log"):
        read_session(path)
    path.write_bytes(first + b"\n" + garbage + b"\n")
    assert (len(read_session(path).lines), read_session(path).dropped) == (1, True)


@pytest.mark.parametrize(
    ("line", "column"),
    [('{"seq": 2, "tÿpe": nothing}'.encode(), 20), (b'{"seq": 2, "type": "\xe9"}', 21)],
)
def test_invalid_line_is_named_by_its_column(line: bytes, column: int) -> None:
    path = keep(*said("a"))
    first, second = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([first, line, second, b""]))
    with pytest.raises(WorkerError, match=rf"{path}:2:{column}: not a line of a session log"):
        read_session(path)
    assert damage_of(read_readable(path)) == f"{path}:2:{column}: not a line of a session log"


def test_file_that_is_not_a_log_is_never_changed(tmp_path: Path) -> None:
    for content in (b'{"one": "line without an end"}', b"", b"a\nb"):
        file = tmp_path / "data.jsonl"
        file.write_bytes(content)
        try:
            SessionLog.resume(file)[0].close()
        except WorkerError:
            assert content == b"a\nb"
        assert file.read_bytes() == content
        assert os.listdir(tmp_path) == ["data.jsonl"]


def test_session_is_found_by_id_prefix_or_path() -> None:
    first, second = (
        keep(*said(), session="20260101-000000-aa"),
        keep(*said(), session="20260102-000000-bb"),
    )
    other = keep(*said(), session="20260102")
    assert find_session("20260101") == find_session("20260101-000000-aa") == first
    assert find_session("20260102-") == second
    assert find_session("20260102") == other
    assert find_session(str(first)) == first
    with pytest.raises(
        WorkerError,
        match="'2026' matches 3 sessions; type more of the ID\n  2026.*\n  2026.*\n  2026",
    ):
        find_session("2026")
    for name in ("", "2027", str(first), "*", "../s1"):
        with pytest.raises(WorkerError, match="there is no session"):
            find_own_session(name)


def test_log_counts_as_missing_only_if_that_is_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a new session could replace one that was unreadable for a moment."""
    assert not log_exists(session_file("s1"))
    keep(START)
    assert log_exists(session_file("s1"))

    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "stat", fail)
    with pytest.raises(OSError, match="Input/output error"):
        log_exists(session_file("s1"))


def test_lock_with_invalid_content_has_no_owner() -> None:
    path = keep(*said("a"))
    stale = path.with_name(f".{path.name}.lock")
    for content in ("", "nonsense", "99999999999999999999", "999999999"):
        stale.write_text(content)
        assert lock_holder(path) is None
        unlock_log(path, lock_log(path))
        assert not stale.exists()


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch):
    """Files of this process cannot grow beyond a size; Python ignores the signal, so that a write fails."""
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # half a file would be kept, and break every later import
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def at(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))

    yield at
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 1, 100])
def test_full_disk_stops_the_work_and_leaves_whole_lines(full_disk, room: int) -> None:
    path = keep(*said("a"))
    log, read = SessionLog.resume(path)
    recorder = Recorder(log, session="s1", worker="w", redactor=Redactor({}), after=read.lines[-1])
    with log:
        full_disk(path.stat().st_size + room)
        for _ in range(2):
            with pytest.raises(
                SessionLost,
                match=r"cannot be written any more: .*\n  make room for .* -r s1, or use",
            ):
                recorder(StatusEvent("info", "b"))
        recorder(SessionEnd({"status": "failed"}))
        full_disk(resource.RLIM_INFINITY)
        with pytest.raises(SessionLost):
            recorder(StatusEvent("info", "there is room again, but a line is missing"))
    read = read_session(path)
    assert (words(path), read.dropped, broken_link(read)) == (["a"], False, None)
    go_on(path, StatusEvent("info", "c"))
    assert words(path) == ["a", "c"]


CHATTY = """
from forge_cli import ToolContext, tool


@tool(needs_approval=False)
def chatty(context: ToolContext) -> str:
    \"\"\"Tell how it goes, and think nothing of it when that fails.\"\"\"
    for _ in range(3):
        try:
            context.progress("working " * 1000)
        except Exception:
            pass
    return "done"
"""


def test_tool_cannot_hide_a_lost_log(full_disk, project: Project) -> None:
    project.write("tools.py", CHATTY)
    project.write(
        "worker.yaml",
        "name: w\ninstructions: x\ntoolsets: {custom: {module: ./tools.py, tools: [chatty]}}",
    )
    with project.environment(), SessionLog.create(session_file("s1")) as log:
        full_disk(8000)
        seen = project.run(calls(call("chatty")), "Done.", sinks=(log,))
    assert (seen.result.status, seen.result.exit_code) == ("failed", 1)
    assert "the session's log cannot be written any more" in (seen.result.error or "")
    assert read_session(log.path).lines[-1].type == "approvalDecided"


def test_lost_log_does_not_delay_an_interrupt(full_disk, project: Project) -> None:
    project.write("worker.yaml", "name: w\ninstructions: x")

    class Stuck:
        name, context_window = "test:stuck", None

        async def stream(self, request: Any) -> Any:
            yield TextDelta("Hm")
            full_disk(log.path.stat().st_size)
            runtime.interrupt()
            await anyio.sleep_forever()

        async def aclose(self) -> None:
            pass

    async def work() -> WorkerResult:
        with anyio.fail_after(60):
            async with runtime:
                return await runtime.run("go")

    with project.environment(), SessionLog.create(session_file("s1")) as log:
        worker = load_worker(project.folder / "worker.yaml")
        wiring = Wiring(sinks=(log,), session_id="s1")
        runtime = WorkerRuntime(
            worker=worker, model=Stuck(), workspace=project.folder, wiring=wiring
        )
        result = in_loop(work)
    assert (result.status, result.exit_code) == ("failed", 1)


def test_copy_that_does_not_fit_is_not_created(full_disk) -> None:
    path = keep(*said("a", "b"))
    lines = read_session(path).copied("s2")
    assert [line.session for line in lines] == ["s2"] * 3
    with SessionLog.create(session_file("s2")) as log:
        full_disk(path.stat().st_size - 10)
        with pytest.raises(SessionLost):
            log.copy(lines)
    assert session_files() == [path]
    with SessionLog.create(session_file("s2")) as log:
        full_disk(resource.RLIM_INFINITY)
        log.copy(lines)
    copy = read_session(log.path)
    assert (broken_link(copy), len(copy.lines)) == (None, 3)
