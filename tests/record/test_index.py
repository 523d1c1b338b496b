"""The index of sessions: it always agrees with the logs, and without it only time is lost."""

import json
import os
from pathlib import Path

import pytest

from forge_cli.core.events import Event, MessageEvent, SessionEnd, SessionStart
from forge_cli.events import Message
from forge_cli.record.log import session_files
from forge_cli.record.overview import (
    INDEX,
    Overview,
    readable_sessions,
    session_index,
    session_overview,
)
from forge_cli.record.places import session_file, sessions_folder
from forge_cli.record.recorder import SessionLog
from tests.support.lines import lines_of

START = SessionStart("script:x", "/somewhere", "interactive")
DONE = SessionEnd({"status": "completed"})


def keep(session: str, task: str, *events: Event) -> Path:
    with SessionLog.create(session_file(session)) as log:
        log.copy(lines_of(START, MessageEvent(Message("user", task)), *events))
    return log.path


def seen_by_index() -> list[Overview]:
    return [seen for _, seen in readable_sessions()]


def index_file() -> Path:
    return sessions_folder() / INDEX


def test_unchanged_log_is_not_read_again() -> None:
    path = keep("s1", "one", DONE)
    seen_by_index()
    index_file().write_text(index_file().read_text().replace('"one"', '"known"'))
    assert [seen.task for seen in seen_by_index()] == ["known"]
    assert session_overview(path).task == "one"


def test_changed_log_with_the_same_size_and_time_is_read_again() -> None:
    path = keep("s1", "one", DONE)
    seen_by_index()
    times = path.stat()
    path.write_text(path.read_text().replace('"one"', '"two"'))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [seen.task for seen in seen_by_index()] == ["two"]


def test_owner_of_a_session_is_checked_each_time() -> None:
    path = keep("s1", "one", DONE)
    seen_by_index()
    with SessionLog.resume(path)[0]:
        assert [(seen.pid, seen.status) for seen in seen_by_index()] == [(os.getpid(), "running")]
    assert [(seen.pid, seen.status) for seen in seen_by_index()] == [(None, "completed")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"task": "one"', '"task": 7'),
        ('"status": "completed", ', ""),
        ('"stamp": "4 ', '"stamp": "1 '),
        ("}}", "}"),
    ],
)
def test_damaged_index_is_ignored_and_replaced(old: str, new: str) -> None:
    keep("s1", "one", DONE)
    seen_by_index()
    whole = index_file().read_text()
    assert old in whole
    index_file().write_text(whole.replace(old, new))
    assert seen_by_index() == [session_overview(path) for path in session_files()]
    assert json.loads(index_file().read_text()) == json.loads(whole)


def test_index_forgets_deleted_sessions() -> None:
    keep("s1", "one", DONE)
    path = keep("s2", "a secret plan", DONE)
    seen_by_index()
    assert "secret" in index_file().read_text()
    path.unlink()
    with session_index():
        pass
    assert list(json.loads(index_file().read_text())) == ["s1.jsonl"]
