"""The index of the sessions: it says what the logs say, whatever becomes of either, and its absence only costs time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.core.events import Event, MessageEvent, SessionEnd, SessionStart
from forge_cli.events import Message
from forge_cli.record import overview as record_index
from forge_cli.record.find import session_files
from forge_cli.record.open import sweep
from forge_cli.record.overview import FILE, Overview, SessionIndex, forget_removed, read_overview, with_holder
from forge_cli.record.places import session_file, sessions_folder
from forge_cli.record.writer import SessionLog

from ..lines import lines_of

START = SessionStart("script:x", "/somewhere", "interactive")
DONE = SessionEnd({"status": "completed"})


def keep(session: str, task: str, *events: Event) -> Path:
    with SessionLog.create(session_file(session)) as log:
        log.copy(lines_of(START, MessageEvent(Message("user", task)), *events))
    return log.path


def seen_by_index() -> list[Overview]:
    with SessionIndex() as index:
        return [index.overview(path) for path in session_files()]


def seen_in_logs() -> list[Overview]:
    return [with_holder(path, read_overview(path)) for path in session_files()]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the logs that were read for the index."""
    names: list[str] = []

    def note(path: Path) -> Overview:
        names.append(path.stem)
        return original(path)

    original = record_index.read_overview
    monkeypatch.setattr(record_index, "read_overview", note)
    return names


def index_file() -> Path:
    return sessions_folder() / FILE


def test_a_log_that_changed_is_read_anew(read: list[str]) -> None:
    keep("s1", "one", DONE)
    path = keep("s2", "two", DONE)
    seen_by_index()
    read.clear()
    with SessionLog.resume(path)[0] as log:
        log.copy(lines_of(START, after=lines_of(START, MessageEvent(Message("user", "two")), DONE)[-1]))
    assert seen_by_index() == seen_in_logs()
    assert read == ["s2"]


def test_other_words_in_a_log_of_the_same_size_and_time_are_seen() -> None:
    path = keep("s1", "one", DONE)
    seen_by_index()
    times = path.stat()
    path.write_text(path.read_text().replace('"one"', '"two"'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [seen.task for seen in seen_by_index()] == ["two"]


def test_who_works_on_a_session_is_asked_each_time() -> None:
    path = keep("s1", "one", DONE)
    seen_by_index()
    with SessionLog.resume(path)[0]:
        assert [(seen.pid, seen.status) for seen in seen_by_index()] == [(os.getpid(), "running")]
    assert [(seen.pid, seen.status) for seen in seen_by_index()] == [(None, "completed")]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[:-10],
        lambda text: "[]",
        lambda text: text.replace('"task": "one"', '"task": 7'),
        lambda text: text.replace('"turns": 0', '"turns": "0"'),
        lambda text: text.replace('"status": "completed", ', ""),
        lambda text: text.replace('"value": {', '"value": [{').replace("}}", "}]}"),
        lambda text: text.replace('"stamp": "2 ', '"stamp": "1 '),
    ],
)
def test_a_damaged_index_is_ignored_and_replaced(read: list[str], damage) -> None:
    keep("s1", "one", DONE)
    seen_by_index()
    whole = index_file().read_text()
    damaged = damage(whole)
    assert damaged != whole
    index_file().write_text(damaged)
    read.clear()
    assert seen_by_index() == seen_in_logs()
    assert read == ["s1"]
    assert json.loads(index_file().read_text()) == json.loads(whole)


def test_nothing_is_kept_of_what_is_gone() -> None:
    keep("s1", "one", DONE)
    path = keep("s2", "a secret plan", DONE)
    seen_by_index()
    assert "secret" in index_file().read_text()
    path.unlink()
    forget_removed()
    assert list(json.loads(index_file().read_text())) == ["s1.jsonl"]


@pytest.mark.long
def test_several_processes_at_once() -> None:
    for number in range(40):
        keep(f"s{number}", f"task {number}", DONE)
    look = (
        "from forge_cli.record.overview import SessionIndex; from forge_cli.record.find import session_files\n"
        "for _ in range(20):\n"
        "    with SessionIndex() as index:\n"
        "        for path in session_files():\n"
        "            path.touch()\n"
        "            assert index.overview(path).task == 'task ' + path.stem[1:], path\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", look]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert seen_by_index() == seen_in_logs()
    assert [name for name in os.listdir(sessions_folder()) if FILE in name] == [FILE]


def test_what_a_killed_process_left_of_it_is_removed() -> None:
    keep("s1", "one", DONE)
    seen_by_index()
    part = sessions_folder() / ".forge-0123abcd.tmp"
    part.write_text("{")
    os.utime(part, (1, 1))
    sweep(sessions_folder())
    assert not part.exists()
    assert index_file().exists()
