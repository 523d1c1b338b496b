"""``forge tools test``: do tools keep to what every tool has to, and do their examples come out as they say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.table import print_json
from forge_cli.cli.tools.programs import own_tools
from forge_cli.cli.tools.subjects import look_at_target
from forge_cli.core.errors import ExitCode
from forge_cli.core.text import visible
from forge_cli.engine.gate.conformance import ConformanceCheck

app = new_app()


@app.command("test")
def check_tools(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET", help="A tool in ~/.forge/tools, a toolset, a worker, a tools.py, or a tool's folder."
        ),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option("--worker", metavar="WORKER", help="The settings of toolsets are those of this worker."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check tools, and run the examples of a tool.yaml.

    Without TARGET, every tool in ~/.forge/tools, or of --worker. Beside examples, only tools are called that do
    nothing but read and need no input.
    """
    with data_output():
        checks = look_at_target(target, worker)
    failed = [check for check in checks if not check.ok]
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        _print(checks)
    sys.stdout.flush()
    if failed:
        sys.stderr.write(f"forge: {len(failed)} of {len(checks)} checks failed\n")
    elif not checks and target is None and worker is None:
        sys.stderr.write(f"there are no tools in {visible(str(own_tools().root))}; forge tools new NAME makes one\n")
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.DONE)


def _print(checks: Sequence[ConformanceCheck]) -> None:
    """What passed in one line a tool, and a line for whatever did not."""
    for tool, group in groupby(checks, key=lambda check: check.tool):
        of_tool = list(group)
        passed = ", ".join(check.check for check in of_tool if check.ok)
        if passed:
            sys.stdout.write(visible(f"ok      {tool}: {passed}") + "\n")
        for check in of_tool:
            if not check.ok:
                detail = check.detail.replace("\n", "\n          ")
                sys.stdout.write(visible(f"FAILED  {tool}: {check.check}: {detail}", keep="\n") + "\n")
