"""Opening a session: its names, its lock, and refused ones."""

import os
from pathlib import Path
from typing import Any

import pytest

from forge_cli import ForgeError, Worker, WorkerResult, WorkerRuntime, load_worker
from forge_cli.core.events import MessageEvent, SessionStart
from forge_cli.embedding import open_session
from forge_cli.events import Message
from forge_cli.process.signals import in_loop
from forge_cli.record.line import BadLine, Line
from forge_cli.record.log import broken_link, find_session, read_session, session_files
from forge_cli.record.places import session_file
from forge_cli.record.recorder import SessionLog
from forge_cli.testing import Project, scripted_model
from tests.support.lines import lines_of


@pytest.fixture
def worker(project: Project) -> Worker:
    return load_worker(project.write("worker.yaml", "name: w\ninstructions: x\n"))


def kept(session: str, workspace: Path, *events: Any) -> Path:
    """A session of the worker in that folder, with something left to do."""
    start = SessionStart(
        "script:x", str(workspace), "interactive", output_schema={"type": "object"}
    )
    with SessionLog.create(session_file(session)) as log:
        log.copy(lines_of(start, MessageEvent(Message("user", "go")), *events))
    return log.path


async def work(worker: Worker, task: str, said: str, **which: Any) -> WorkerResult:
    with open_session(worker, workspace=worker.folder, **which) as session:
        async with WorkerRuntime(
            worker=worker, model=scripted_model(said), workspace=worker.folder, session=session
        ) as runtime:
            return await runtime.run(task)


def texts(session: str) -> list[str]:
    events = [line.event for line in read_session(find_session(session)).lines]
    return [event.message.text for event in events if isinstance(event, MessageEvent)]


def test_program_keeps_resumes_and_forks_a_session(worker: Worker) -> None:
    first = in_loop(lambda: work(worker, "one", "First."))
    again = in_loop(lambda: work(worker, "two", "Second.", resume=first.session_id))
    copy = in_loop(lambda: work(worker, "three", "Third.", last=True, fork=True))
    assert again.session_id == first.session_id != copy.session_id
    assert texts(first.session_id) == ["one", "First.", "two", "Second."]
    assert texts(copy.session_id) == ["one", "First.", "two", "Second.", "three", "Third."]
    assert [broken_link(read_session(path)) for path in session_files()] == [None, None]
    nothing = in_loop(lambda: work(worker, "four", "Fourth.", resume=first.session_id, keep=False))
    assert nothing.status == "completed"
    assert texts(first.session_id) == ["one", "First.", "two", "Second."]


def test_session_is_found_by_any_of_its_names(worker: Worker, tmp_path: Path) -> None:
    old = kept("20260101-000000-aaaa1111", tmp_path)
    new = kept("20260102-000000-bbbb2222", tmp_path)
    for name in (old.stem, "20260101", "aaaa1111", str(old)):
        assert find_session(name) == old
    assert find_session("last") == new
    with open_session(worker, resume="aaaa1111") as session:
        assert session.id == old.stem
    with open_session(worker, last=True, workspace=tmp_path) as session:
        assert session.id == new.stem
    for name in ("1111", "-aaaa1111", "aaaa"):
        with pytest.raises(ForgeError, match=f"there is no session '{name}'"):
            find_session(name)


def test_resumed_and_forked_sessions_keep_their_lines(worker: Worker, tmp_path: Path) -> None:
    path = kept("s1", tmp_path)
    with open_session(worker, resume="s1") as session:
        assert session.resumed is not None
        assert (session.resumed.model, session.resumed.output_schema) == (
            "script:x",
            {"type": "object"},
        )
        assert [message.text for message in session.resumed.past.messages] == ["go"]
        assert (session.resumed.last, session.resumed.forked_from) == (session.lines[-1], None)
    with open_session(worker, resume="s1", fork=True) as copy:
        assert copy.resumed is not None
        assert (copy.resumed.forked_from, {line.session for line in copy.lines}) == (
            "s1",
            {copy.id},
        )
    assert [line.text() for line in read_session(path).lines] == [
        line.text() for line in session.lines
    ]


def test_unused_session_leaves_no_file(worker: Worker) -> None:
    with open_session(worker) as session:
        assert (session.resumed, session.log is not None, len(session.sinks)) == (None, True, 1)
    with open_session(worker, keep=False) as session:
        assert (session.log, session.sinks) == (None, ())
    assert session_files() == []


def test_line_not_written_by_forge_is_named_despite_its_valid_chain(
    worker: Worker, tmp_path: Path
) -> None:
    path = kept("s1", tmp_path)
    first, second = read_session(path).lines
    broken = Line({**second.data, "message": {"role": "user"}}).copied("s1", first)
    path.write_text(first.text() + broken.text())
    problem = f"^{path}:2:1: not a line of a session log: message.message.content: missing"
    with pytest.raises(BadLine, match=problem), open_session(worker, resume="s1"):
        pass


def test_folder_name_that_is_not_utf8_is_found_again(worker: Worker, tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff"))
    folder.mkdir()
    kept("s1", folder)
    warned: list[str] = []
    with open_session(worker, last=True, workspace=folder, warn=warned.append) as session:
        assert (session.id, warned) == ("s1", [])
