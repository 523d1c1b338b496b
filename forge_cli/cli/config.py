"""``forge config show``: every setting that holds here, and where it comes from."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from forge_cli.cli.notices import near
from forge_cli.cli.options import DirectoryOption, JsonOption, new_app, work_folder
from forge_cli.core.text import visible
from forge_cli.files.effective import ConfigRow, effective_settings
from forge_cli.files.home import forge_home
from forge_cli.files.settings import load_settings, untrusted_project
from forge_cli.inspection.model_names import check_settings
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()


@app.command()
def show(
    as_json: JsonOption = False,
    origin: Annotated[bool, typer.Option("--origin", help="Show the whole path, line and column of each.")] = False,
    directory: DirectoryOption = None,
) -> None:
    """Show every setting that holds here, and where it comes from.

    From the organisation, the environment, the project's .forge/config.yaml, your own config.yaml, or by default; rules
    of policies from each place that has some. A worker and the flags of a command may say more.
    """
    home, workspace = forge_home(), work_folder(directory)
    check_settings(load_settings(home, workspace))
    rows = list(effective_settings(home, workspace))
    if as_json:
        print_json(rows)
    else:
        cells = [{**_cells(row), **({"from": row["where"] or row["source"]} if origin else {})} for row in rows]
        print_table(["key", Column("from", is_path=True), "value"], cells)
    if file := untrusted_project(home, workspace):
        sys.stderr.write(f"warning: {visible(str(file))} ignored: you have not trusted this folder. Run: forge trust\n")


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _cells(row: ConfigRow) -> dict[str, str]:
    """The place before the value: a long value is cut, the place is what people came for."""
    return {"key": row["key"], "from": near(row["where"] or row["source"]), "value": _text(row["value"])}
