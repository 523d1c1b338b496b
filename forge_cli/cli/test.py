"""``forge test``: replays of the recorded sessions beside workers, as regression tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TextIO

import typer
from msgspec import Struct

from forge_cli.cli.courses import HomeOption, counts, home_folder, summary
from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.replay.drift import Drift
from forge_cli.engine.replay.recording import open_recording
from forge_cli.engine.replay.replay import Course
from forge_cli.engine.runtime.repeat import (
    FOLDER,
    Repetition,
    ReplayStopped,
    record_folders,
    worker_beside,
    worker_named_in,
)
from forge_cli.files.worker import load_worker
from forge_cli.process.signals import in_loop, interruptible
from forge_cli.record.places import SUFFIX
from forge_cli.ui.table import paint, print_json
from forge_cli.ui.wrap import wrap_for

app = new_app()


class Outcome(Struct, frozen=True):
    """The result of one replayed record."""

    file: Path
    worker: str | None
    end: Course | ForgeError

    @property
    def status(self) -> str:
        match self.end:
            case Course():
                return "ok"
            case Drift():
                return "drift"
            case _:
                return "error"

    def wire(self) -> JsonObject:
        found: JsonObject = {"file": str(self.file), "worker": self.worker, "status": self.status}
        match self.end:
            case Course():
                return {**found, **counts(self.end)}
            case Drift():
                return {**found, "drift": self.end.wire()}
            case _:
                return {**found, "error": str(self.end)}

    def line(self, out: TextIO) -> str:
        if isinstance(self.end, Course):
            told = summary(self.end)
        else:
            told = str(self.end)
        if not told.startswith(str(self.file)):
            told = f"{self.file}: {told}"
        shown = visible(told, keep="\n")
        text = wrap_for(out, f"{self.status:<5} {shown}", 6)
        return f"{paint(text[:5], stream=out)}{text[5:]}\n"  # the padded status


@app.command("test")
def replay_tests(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A folder to search, a worker, or a record.")
    ] = Path(),
    as_json: JsonOption = False,
    home: HomeOption = None,
) -> None:
    """Replay the recorded tests of workers."""
    records = find_records(path)
    if not records:
        target = f"{FOLDER}/NAME{SUFFIX}"
        hint = f'record one: forge run WORKER "TASK" --record {target}, beside the worker'
        raise UsageError(
            f"no worker in {path} or below has a record in a folder {FOLDER}/ beside it",
            hint=hint,
        )
    with data_output() as out:
        outcomes = in_loop(_test_all, records, home_folder(home), None if as_json else out)
        tally = {
            status: sum(outcome.status == status for outcome in outcomes)
            for status in ("ok", "drift", "error")
        }
        if as_json:
            data = {**tally, "records": [outcome.wire() for outcome in outcomes]}
            print_json(data, out)
        else:
            out.write(_last_line(tally))
    if tally["drift"]:
        raise typer.Exit(ExitCode.DRIFT)
    raise typer.Exit(ExitCode.INVALID if tally["error"] else ExitCode.DONE)


def _last_line(tally: dict[str, int]) -> str:
    told = [f"{tally['ok']} ok"]
    remedy = ""
    if tally["drift"]:
        told.append(f"{tally['drift']} drifted")
        remedy = "; if the change is intended, record again with forge run --record"
    if tally["error"]:
        told.append(f"{tally['error']} could not be replayed")
    return f"{', '.join(told)}{remedy}\n"


async def _test_all(
    records: Sequence[Path], home: Path | None, out: TextIO | None
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    interrupt = InterruptSignal()
    host = PluginHost()
    with interruptible(interrupt.interrupt):
        for record in records:
            outcome = await _test(record, home, interrupt, host)
            outcomes.append(outcome)
            if out:
                out.write(outcome.line(out))
                out.flush()
    return outcomes


async def _test(
    record: Path, home: Path | None, interrupt: InterruptSignal, host: PluginHost
) -> Outcome:
    name = None
    try:
        recording = open_recording(str(record))
        name = recording.worker
        worker = worker_beside(record, name)
        repetition = Repetition(
            worker=worker,
            recording=recording,
            workspace=worker.folder,
            home=home,
            interrupt=interrupt,
            host=host,
        )
        return Outcome(record, name, await repetition.go())
    except ReplayStopped as stopped:
        raise typer.Exit(stopped.exit_code) from None
    except ForgeError as error:
        return Outcome(record, name, error)


def find_records(path: Path) -> list[Path]:
    """Return the records in ``tests`` folders; for a worker, its own; for a file, the file."""
    if os.path.isfile(path) and path.suffix == SUFFIX:
        return [path]
    if os.path.isdir(path):
        found: list[Path] = []
        for folder in record_folders(path):
            found += sorted(folder.glob(f"*{SUFFIX}"))
        return found
    file = Path(find_trusted_worker(str(path), interactive=False))
    worker = load_worker(file)
    records = sorted((file.parent / FOLDER).glob(f"*{SUFFIX}"))
    # None: an unreadable record, whose replay reports the error
    return [record for record in records if worker_named_in(record) in (worker.name, None)]
