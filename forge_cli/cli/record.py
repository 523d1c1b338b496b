"""Records of sessions in files of one's own: written by ``--record``, and found again to be repeated."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from forge_cli.cli.options import work_folder
from forge_cli.core.errors import Mark, UsageError, WorkerError
from forge_cli.core.signature import JsonObject
from forge_cli.engine.replay.recording import Recording, read_recording
from forge_cli.files.worker import Worker, load_worker
from forge_cli.record.log import SUFFIX, SessionLost, find_session, parse_line, read_session


class RecordFile:
    """A sink of the record that writes a file anew; what stands there now is replaced once the session starts."""

    def __init__(self, path: Path, before: Iterable[JsonObject] = ()) -> None:
        """``before`` are the lines that a session which goes on has already."""
        self._path, self._waiting = path.absolute(), list(before)
        self._mode: Literal["w", "a"] = "w"

    def __call__(self, line: JsonObject) -> None:
        if "seq" not in line:
            return
        lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in (*self._waiting, line)]
        try:
            with open(self._path, self._mode, encoding="utf-8", newline="\n") as stream:
                stream.writelines(lines)
        except OSError as error:
            problem = f"--record {self._path}: the record cannot be written: {error.strerror}"
            raise SessionLost(problem, hint="make room for it, or leave --record out") from None
        self._mode = "a"
        self._waiting.clear()


def check_target(path: Path) -> None:
    """A record may be written over a record, and over nothing else."""
    if path.is_dir():
        raise UsageError(f"--record {path}: that is a folder; name a file in it")
    if not path.parent.is_dir():
        hint = f"make it first: mkdir -p {path.parent}"
        raise UsageError(f"--record {path}: there is no folder {path.parent}", hint=hint)
    try:
        with open(path, "rb") as stream:
            first = stream.readline()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"--record {path}: {error.strerror}") from None
    line = parse_line(first)
    if first and (line is None or line["type"] != "sessionStart"):
        raise UsageError(f"--record {path}: that file is no record, and is left as it is", hint="name another file")


def open_recording(name: str) -> Recording:
    """A session by its id, or by the path of a record."""
    return read_recording(read_session(find_record(name)))


def find_record(name: str) -> Path:
    """The file of a record, whatever it is called, or of a session."""
    path = Path(name)
    if path.is_file():
        return path
    if path.suffix == SUFFIX or os.sep in name:
        raise WorkerError(Mark(name), "there is no such record", hint="forge run WORKER TASK --record FILE makes one")
    return find_session(name)


def worker_of(recording: Recording, named: str | None) -> Worker:
    """The worker that is named, or the one that the session was recorded with."""
    file = named or recording.worker_file
    if not file or not Path(file).exists():
        where = f" in {file}" if file else ""
        problem = f"the worker '{recording.worker}' of this session is no longer there{where}"
        raise WorkerError(None, problem, hint="say where it is with --worker WORKER")
    worker = load_worker(file)
    if worker.name != recording.worker:
        raise UsageError(f"the session is one of the worker '{recording.worker}', not of '{worker.name}'")
    return worker


def workspace_of(recorded: str, directory: Path | None) -> Path:
    """``-C``, or the folder that the session worked in, or where the caller stands if that is gone."""
    return work_folder(Path(recorded) if directory is None and recorded and Path(recorded).is_dir() else directory)
