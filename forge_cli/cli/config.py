"""``forge config show|set``: the settings in effect with their origin, and a change to your own."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.notices import near, warn
from forge_cli.cli.options import DirectoryOption, JsonOption, new_app, work_folder
from forge_cli.core.approval import GrantRule
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.files.document import parse_document
from forge_cli.files.edit import CannotEditError, FileEdit, plan_edit
from forge_cli.files.effective import ConfigRow, effective_settings
from forge_cli.files.home import forge_home, make_private
from forge_cli.files.settings import Settings
from forge_cli.files.settings_files import load_settings, untrusted_project
from forge_cli.inspection.model_names import check_settings
from forge_cli.schema.config import parse_config
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()
_PART = r'(?:"([^"]+)"|([^".]+))'
"""The pattern of a part of a key: quoted, or without dots."""
_VARIABLES = {"model": "FORGE_MODEL"}
"""Environment variables that override a setting."""


@app.command()
def show(
    as_json: JsonOption = False,
    origin: Annotated[
        bool, typer.Option("--origin", help="Show the full path, line and column of each.")
    ] = False,
    directory: DirectoryOption = None,
) -> None:
    """Show the settings in effect here, and where each comes from.

    Sources are the organisation, the environment, the project's .forge/config.yaml, your own
    config.yaml and the defaults; policy rules are listed from each source. Workers and the flags of
    a command may add to these.
    """
    home = forge_home()
    workspace = work_folder(directory)
    check_settings(load_settings(home, workspace))
    rows = list(effective_settings(home, workspace))
    if as_json:
        print_json(rows)
    else:
        table: list[dict[str, str]] = []
        for row in rows:
            cells = _cells(row)
            if origin:
                cells["from"] = row["where"] or row["source"]
            table.append(cells)
        print_table(["key", Column("from", is_path=True), "value"], table)
    if file := untrusted_project(home, workspace):
        sys.stderr.write(
            f"warning: {visible(str(file))} ignored: you have not trusted this folder. "
            "Run: forge trust\n"
        )


@app.command("set")
def set_value(
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="A key of config.yaml, for example limits.max_cost."),
    ],
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="The value as YAML: text, number, [list]."),
    ],
) -> None:
    """Set a key of your own config.yaml; comments are kept.

    An invalid value is not written. Separate the parts of KEY by dots; quote a part that contains a
    dot.
    """
    file = forge_home() / "config.yaml"
    edit, settings = _planned(file, _place(key), value)
    if edit.before == edit.after:
        sys.stdout.write(visible(f"{key} is {value} already, in {file}") + "\n")
        return
    make_private(file.parent)
    try:
        edit.write()
    except CannotEditError as error:
        raise ForgeError(f"{error}; set {key} by hand") from None
    sys.stdout.write(visible(f"{key} is {value} now, in {file}") + "\n")
    variable = _VARIABLES.get(key, "")
    if settings.model and os.environ.get(variable):
        warn(f"{variable} is set and overrides it: {os.environ[variable]}")


def _place(key: str) -> tuple[str, ...]:
    found = tuple(quoted or plain for quoted, plain in re.findall(_PART, key))
    if not re.fullmatch(rf"{_PART}(?:\.{_PART})*", key):
        raise UsageError(
            f"'{key}' is not a key",
            hint="for example: model, limits.max_turns, 'models.\"openai:x.y\".timeout'",
        )
    if found[0] not in Settings.model_fields:
        raise UsageError(
            f"there is no setting '{found[0]}'", hint=did_you_mean(found[0], Settings.model_fields)
        )
    return found


def _planned(file: Path, place: tuple[str, ...], text: str) -> tuple[FileEdit, Settings]:
    """Return the edit and the new settings; a value that is not valid YAML is text."""
    refused: list[ForgeError] = []
    for value in _values(text):
        rule = GrantRule(place, value, ".".join(place), user_at=place)
        try:
            edit = plan_edit(file, [rule], user=True)
            settings = parse_config(Settings, parse_document(edit.after, str(file)), file=str(file))
            check_settings(settings)
        except CannotEditError as error:
            problem = str(error).partition("\n")[0]
            raise ForgeError(
                f"{problem}; set it by hand: {rule}", hint=f"the file is {file}"
            ) from None
        except ForgeError as error:
            refused.append(error)
        else:
            return edit, settings
    # the first refusal is of the value as YAML, which is usually meant
    first = refused[0]
    raise UsageError(f"{'.'.join(place)} cannot be {text}: {first.message}", hint=first.hint)


def _values(text: str) -> list[Any]:
    try:
        read = parse_document(f"value: {text}", "VALUE")["value"]
    except (ForgeError, KeyError):
        return [text]
    return [read] if read == text else [read, text]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _cells(row: ConfigRow) -> dict[str, str]:
    """Return the cells with the origin before the value, because a long value is cut."""
    return {
        "key": row["key"],
        "from": near(row["where"] or row["source"]),
        "value": _text(row["value"]),
    }
