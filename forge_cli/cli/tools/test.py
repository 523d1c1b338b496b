"""``forge tools test``: conformance checks of tools, and their examples."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import asdict

from forge_cli.cli.find_worker import find_worker
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.errors import ExitCode
from forge_cli.core.text import visible
from forge_cli.core.thirdparty import ThirdPartyError
from forge_cli.files.home import forge_home
from forge_cli.inspection.conformance import ConformanceCheck, lines_of_checks
from forge_cli.inspection.inspector import inspect
from forge_cli.inspection.subjects import LOADS, check_target, is_known, worker_names
from forge_cli.process.signals import in_loop
from forge_cli.toolsets.executables.manage import ExecutableManager
from forge_cli.ui.table import print_json

app = new_app()


@app.command("test")
def check_tools(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="A tool in ~/.forge/tools, a toolset, a worker, a tools.py, or a tool's folder.",
        ),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option("--worker", metavar="WORKER", help="Use the toolset settings of this worker."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check tools, and run the examples of a tool.yaml.

    Without TARGET, checks every tool in ~/.forge/tools, or of --worker. Besides examples, only
    tools are called that just read and need no input.
    """
    with data_output():
        checks = _look(target, worker)
    failed = [check for check in checks if not check.ok]
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines_of_checks(checks))
    sys.stdout.flush()
    if failed:
        sys.stderr.write(f"forge: {len(failed)} of {len(checks)} checks failed\n")
    elif not checks and target is None and worker is None:
        root = visible(str(ExecutableManager(forge_home()).root))
        sys.stderr.write(f"there are no tools in {root}; make one: forge tools new NAME\n")
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.DONE)


def _look(target: str | None, worker: str | None = None) -> list[ConformanceCheck]:
    """Return the checks of a target; third-party code that cannot be loaded is a failed check."""
    path = find_worker(worker) if worker is not None else None
    if path is None and target in worker_names() and not is_known(str(target)):
        path = find_worker(str(target))
        target = None
    named = path
    if named is None and target and os.path.exists(target):
        named = target  # the child may see this path
    try:
        return in_loop(partial(inspect, check_target, target, path, worker=named, calls_tools=True))
    except ThirdPartyError as error:
        return [ConformanceCheck.of(Path(str(target or path)).name, LOADS, str(error))]
