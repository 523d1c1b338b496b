"""A form on the terminal: the arguments of a tool, asked one by one."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from forge_cli.core.fields import FormField, derive_fields
from forge_cli.core.schema import JsonObject
from forge_cli.core.tool import Tool
from forge_cli.ui.prompts import read_line
from forge_cli.ui.render import plain


async def fill_form(tool: Tool, given: Mapping[str, object], console: Console) -> JsonObject:
    """Ask for each argument that is not given; an empty line takes the default, or leaves it out."""
    found: JsonObject = dict(given)
    for field in derive_fields(tool):
        if field.name not in found:
            console.print(plain(_question(field)), end="")
            line = (await read_line() or "").rstrip("\n")
            if line:
                found[field.name] = line
    return found


def _question(field: FormField) -> str:
    about = f" ({field.description})" if field.description else ""
    choices = f" [{'/'.join(map(str, field.options))}]" if field.options else ""
    fallback = "" if field.required else f" [{field.default}]" if field.default is not None else " [optional]"
    return f"{field.name}{about}{choices}{fallback}: "
