"""A form on the terminal: the arguments of a tool, asked one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rich.console import Console

from forge_cli.core.fields import FormField, derive_fields
from forge_cli.core.signature import JsonObject
from forge_cli.core.text import visible
from forge_cli.core.tool import Tool
from forge_cli.ui.terminal.line import LineEditor


async def fill_form(tool: Tool, given: Mapping[str, object], console: Console) -> JsonObject:
    """Ask for each argument that is not given; an empty line takes the default, or leaves it out.

    The end of input ends the form: what is still missing is then missing.
    """
    found: JsonObject = dict(given)
    lines = LineEditor(console)
    for field in derive_fields(tool):
        if field.name in found:
            continue
        line = await lines.read(visible(_question(field)))
        if line is None:
            break
        if line.rstrip("\n"):
            found[field.name] = line.rstrip("\n")
    return found


def _question(field: FormField) -> str:
    about = f" ({field.description})" if field.description else ""
    options = ("true", "false") if field.type == "boolean" else field.options
    choices = f" {'|'.join(map(str, options))}" if options else ""
    return f"{field.name}{about}{choices}{_fallback(field)}: "


def _fallback(field: FormField) -> str:
    if field.required:
        return ""
    if field.default is None:
        return " [optional]"
    return f" [{field.default if isinstance(field.default, str) else json.dumps(field.default)}]"
