"""``forge worker check``: whether a worker file is sound."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from forge_cli.cli.looking.answers import answer
from forge_cli.cli.options import DirectoryOption, new_app, work_folder
from forge_cli.cli.output import data_output
from forge_cli.cli.worker.find import WorkerArgument, find_worker

app = new_app()


@app.command()
def check(
    worker: WorkerArgument,
    directory: DirectoryOption = None,
) -> None:
    """Say whether a worker file is sound.

    Its keys, zones, toolsets, tools and approvals are looked at, what its tools import, and the name of its model. What
    it allows in advance is listed.
    """
    path, folder = find_worker(worker), work_folder(directory)
    question = ("worker check", worker, path, str(folder))
    with data_output():
        found = answer(question, partial(_check, worker, path, folder), partial(_besides, path, folder))
    sys.stdout.write(found)


def _check(worker: str, path: str, folder: Path) -> str:
    from forge_cli.cli.worker.checking import check_worker

    return check_worker(worker, path, folder)


def _besides(path: str, folder: Path) -> Iterable[Path]:
    from forge_cli.cli.worker.checking import places_of_worker

    return places_of_worker(path, folder)
