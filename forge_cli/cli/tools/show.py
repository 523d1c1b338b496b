"""``forge tools show``: everything that is known about a tool."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.tools.choose import WorkerOption, find_details, parameter_lines
from forge_cli.core.text import visible
from forge_cli.inspection.sections import line_of_setting
from forge_cli.ui.table import print_json
from forge_cli.ui.wrap import wrap_for

app = new_app()


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool, or the toolset.")],
    worker: WorkerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a tool, or a toolset with its settings.

    Prints what it does, its parameters, who may call it and what it needs.
    """
    details = find_details(name, worker)
    if as_json:
        print_json(details)
        return
    if "settings" in details:
        label = "settings"
        entries = [f"  {line_of_setting(each)}" for each in details.pop("settings")]
    else:
        label = "input"
        entries = parameter_lines(details.pop("inputSchema"))
    for key, value in details.items():
        match value:
            case list():
                named = [each["summary"] if isinstance(each, dict) else each for each in value]
                text = ", ".join(named) or "none"
            case {"summary": text}:
                pass
            case _:
                text = value
        sys.stdout.write(wrap_for(sys.stdout, visible(f"{key}: {text}", keep="\n\t")) + "\n")
    if entries:
        lines = [f"{label}:", *map(visible, entries)]
    else:
        lines = [f"{label}: none"]
    sys.stdout.write(wrap_for(sys.stdout, "\n".join(lines), 4) + "\n")
