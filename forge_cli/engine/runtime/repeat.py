"""Replays: the recorded turns of a session drive the current worker, and each step is compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError, Mark, UsageError, WorkerError
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.replay.drift import Drift, Likeness
from forge_cli.engine.replay.recording import RecordedPart, Recording, open_recording
from forge_cli.engine.replay.replay import Course, Replay, Tools
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.engine.turns.output import OutputSchema
from forge_cli.files.lookup import SUFFIXES, worker_of_folder
from forge_cli.files.worker import Worker, load_worker
from forge_cli.record.resume import Resumed


class ReplayStopped(Exception):
    """Raised if a replay was interrupted."""

    def __init__(self, result: WorkerResult) -> None:
        super().__init__(result.status)
        self.exit_code = result.exit_code


def course_of(recording: Recording, workspace: Path, tools: Tools) -> Course:
    """Return the course of a replay of a recording in a folder."""
    likeness = Likeness(recording.workspace, workspace)
    return Course(recording.path, tools, likeness, parts=len(recording.parts))


def driven_by(recording: Recording, workspace: Path) -> Replay:
    """Return the first part of a record in the place of a model, for otherwise real work."""
    course = course_of(recording, workspace, Tools.LIVE)
    return Replay.of(recording.parts[0], course, recording.model)


def worker_of(recording: Recording, named: str | Path | None = None) -> Worker:
    """Return the named worker, or else the one that the session was recorded with."""
    file = named or recording.worker_file
    if not file or not os.path.exists(file):
        where = f" in {file}" if file else ""
        problem = f"the worker '{recording.worker}' of this session no longer exists{where}"
        raise WorkerError(None, problem, hint="name it with --worker WORKER")
    worker = load_worker(file)
    if worker.name != recording.worker:
        raise UsageError(f"the session belongs to worker '{recording.worker}', not '{worker.name}'")
    return worker


async def replay(
    session: str | Path,
    *,
    worker: Worker | None = None,
    workspace: Path | None = None,
    tools: Tools | str = Tools.READ_ONLY,
    approval_mode: ApprovalMode | str | None = None,
    bus: EventBus | None = None,
    home: Path | None = None,
) -> Course:
    """Replay a session, or a record of one, without a model; raise Drift at the first difference.

    ``worker`` and ``workspace`` are those of the session by default. ``tools`` decides which calls
    run: those that only read (``read-only``), all (``live``) or none (``recorded``). The others
    get their recorded results. ``home`` replaces ``~/.forge``; by default it is empty.
    """
    recording = open_recording(str(session))
    repetition = Repetition(
        worker=worker or worker_of(recording),
        recording=recording,
        workspace=workspace or recorded_workspace(recording),
        tools=Tools(tools),
        mode=ApprovalMode(approval_mode) if approval_mode is not None else None,
        bus=bus or EventBus(),
        home=home,
    )
    return await repetition.go()


def recorded_workspace(recording: Recording) -> Path:
    """Return the folder that a session worked in, or the current one if that is gone."""
    before = Path(recording.workspace)
    return (before if os.path.isdir(before) else Path.cwd()).resolve()


@dataclass(kw_only=True)
class Repetition:
    """A replay: a worker, a record, and the conditions under which it is repeated."""

    worker: Worker
    recording: Recording
    workspace: Path
    tools: Tools = Tools.READ_ONLY
    mode: ApprovalMode | None = None
    home: Path | None = None
    """The folder instead of ``~/.forge``; empty by default, so that all users get the same."""
    bus: EventBus = field(default_factory=EventBus)
    host: PluginHost = field(default_factory=PluginHost)
    interrupt: InterruptSignal = field(default_factory=InterruptSignal)

    async def go(self) -> Course:
        """Replay every part of the session; raise Drift at the first difference."""
        course = course_of(self.recording, self.workspace, self.tools)
        with ExitStack() as stack:
            home = self.home
            if home is None:
                folder = TemporaryDirectory(prefix="forge-home-")
                home = Path(stack.enter_context(folder))
            for part in self.recording.parts:
                # An earlier part may have ended before its task was done.
                course.end = None
                await self._repeat(part, course, home)
        return course

    async def _repeat(self, part: RecordedPart, course: Course, home: Path) -> None:
        replay = Replay.of(part, course, self.recording.model)
        schema = self.recording.output_schema
        runtime = WorkerRuntime(
            worker=self.worker,
            approval_mode=self.mode,
            bus=self.bus,
            workspace=self.workspace,
            interrupt_signal=self.interrupt,
            output_schema=OutputSchema(schema) if schema else None,
            resume=Resumed(part.past, part.last) if part.last else None,
            read_only=part.read_only,
            wiring=Wiring(
                host=self.host,
                session_id=self.recording.session,
                replay=replay,
                home=home,
                guidance=part.guided,
            ),
        )
        async with runtime:
            result = await runtime.run(part.task.text, part.task.attachments)
        if course.drift:
            raise course.drift
        if result.status == "interrupted":
            raise ReplayStopped(result)
        if not course.end and replay.left:
            turn = replay.left
            ended = f"{result.status}: {result.error}" if result.error else result.status
            problem = "this turn is not reached, because the work has ended before"
            drift = Drift("turns", problem, now=ended)
            raise drift.at(Mark(str(course.file), turn.seq), turn.number)


FOLDER = "tests"
"""The folder with the records of the workers beside it."""
SKIPPED = {"node_modules", "__pycache__", "site-packages"}
"""Folders of libraries and caches, which can be large and have no records of the user."""


def record_folders(path: Path) -> Iterator[Path]:
    """Yield the folders of records below a folder, or the folder itself."""
    whole = Path(os.path.abspath(path))
    if whole.name == FOLDER and _is_a_home_of_workers(whole.parent):
        yield path
    for place, folders, _ in os.walk(path):
        kept = [name for name in folders if not name.startswith(".") and name not in SKIPPED]
        folders[:] = sorted(kept)  # in place: os.walk skips the others
        if FOLDER in folders and _is_a_home_of_workers(Path(place)):
            yield Path(place) / FOLDER


def _is_a_home_of_workers(folder: Path) -> bool:
    return worker_of_folder(folder) is not None or any(True for _ in workers_in(folder))


def workers_in(folder: Path) -> Iterator[Worker]:
    """Yield the valid workers in a folder."""
    for file in sorted(folder.iterdir()):
        if file.suffix in SUFFIXES and file.is_file():
            with suppress(ForgeError):  # any YAML file may be beside workers
                yield load_worker(file)


def worker_named_in(record: Path) -> str | None:
    """Return the name of the worker in a record, or None if it cannot be read."""
    try:
        return open_recording(str(record)).worker
    except ForgeError:
        return None


def worker_beside(record: Path, name: str) -> Worker:
    """Return the worker of that name in the folder above the record's."""
    folder = record.absolute().parent.parent
    found = next((worker for worker in workers_in(folder) if worker.name == name), None)
    if found is not None:
        return found
    # A worker that ``workers_in`` skips is invalid; loading it raises the reason.
    usual = worker_of_folder(folder)
    if usual is not None and not any(worker.path == usual for worker in workers_in(folder)):
        return load_worker(usual)
    problem = f"there is no worker '{name}' in {folder}, where this record belongs"
    raise WorkerError(
        Mark(str(record)),
        problem,
        hint=f"keep it in {FOLDER}/ beside its worker, or record it again",
    )
