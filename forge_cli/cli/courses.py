"""Shared code of the commands that replay sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from forge_cli.cli.notices import warn
from forge_cli.cli.options import work_folder
from forge_cli.cli.run_options import SessionOptions
from forge_cli.core.errors import UsageError
from forge_cli.core.text import counted
from forge_cli.core.wire import JsonObject
from forge_cli.engine.replay.recording import Recording, open_recording
from forge_cli.engine.replay.replay import Course
from forge_cli.files.places import require_folder

HomeOption = Annotated[
    Path | None,
    typer.Option(
        "--home", metavar="DIR", help="The folder to use as ~/.forge. Default: an empty one."
    ),
]


def home_folder(directory: Path | None) -> Path | None:
    """Return the folder that ``--home`` names."""
    if directory is not None:
        require_folder("--home", directory)
    return directory.resolve() if directory else None


def workspace_of(recorded: str, directory: Path | None) -> Path:
    """Return the folder of ``-C``, else the recorded folder, or the current one if that is gone."""
    if directory is None and recorded and os.path.isdir(recorded):
        directory = Path(recorded)
    return work_folder(directory)


def counts(course: Course) -> JsonObject:
    """Return the figures of a replay, as ``--json`` prints them."""
    return {
        "turns": course.turns,
        "ran": course.ran,
        "recorded": course.taken,
        "unsure": course.unsure,
    }


def summary(course: Course) -> str:
    """Return what was replayed, and what could not be compared."""
    told = f"{counted(course.turns, 'turn')}, {counted(course.ran + course.taken, 'call')}"
    if course.taken:
        told += f" ({course.taken} from the record)"
    if course.unsure:
        unsure = counted(course.unsure, "result")
        told += f"; {unsure} not compared, because earlier calls were not repeated"
    return told


def recorded(name: str, options: SessionOptions) -> Recording:
    """Return the recording that ``run --replay`` takes its turns from."""
    model = options.model
    record = options.record
    if model is not None or options.resumes:
        other = "-m" if model is not None else "-r and -c"
        raise UsageError(
            f"--replay and {other} contradict each other; keep one",
            hint="the record replaces the model",
        )
    if record is not None and os.path.exists(record) and record.resolve() == Path(name).resolve():
        raise UsageError(
            f"--record {record}: that file is the record to replay", hint="write another file"
        )
    recording = open_recording(name)
    if recording.damage:
        warn(recording.damage)
    return recording
