"""Forms on a terminal: ask for the arguments of a tool one by one, and check each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from forge_cli.core.errors import InvalidInput
from forge_cli.core.text import cut, visible
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.forms import YES_NO, FormField, derive_fields
from forge_cli.schema.tool import Tool
from forge_cli.ui.terminal.input import LineReader
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.render import Indented, plain

MAX_SHOWN = 200
"""Characters of a value to show in the recap."""
QUOTES = '"""'
"""Delimiter of a text with several lines."""
CONTINUED = "... "
CONFIRM = "[Enter] calls it, the name of a field changes it, [n] leaves > "
_LEFT_OUT = object()


async def fill_form(
    tool: Tool, given: Mapping[str, object], lines: LineReader
) -> JsonObject | None:
    """Ask for the missing arguments and confirm all; return None if the person leaves the form.

    An empty line takes the default, or leaves the argument out. Invalid values are asked for again.
    """
    try:
        return await _fill(_Form(tool, given, lines))
    except QuestionLeft:
        return None


async def _fill(form: _Form) -> JsonObject | None:
    asked = [field for field in form.fields.values() if field.name not in form.args]
    for field in asked:
        if not await form.ask(field):
            return None
    if asked:
        return await form.confirm()
    return form.args


class _Form:
    def __init__(self, tool: Tool, given: Mapping[str, object], lines: LineReader) -> None:
        self.fields = {field.name: field for field in derive_fields(tool)}
        self.args: JsonObject = dict(given)
        self._tool = tool
        self._lines = lines

    async def ask(self, field: FormField) -> bool:
        """Ask until the value is valid; return False at the end of input."""
        while (text := await self._read(field)) is not None:
            try:
                value = _value(field, text)
                self._check(field, value)
            except InvalidInput as error:
                self._say(str(error).removeprefix(f"{field.name}: "), "yellow")
                continue
            # An empty answer removes the value that the person changes.
            self.args.pop(field.name, None)
            if value is not _LEFT_OUT:
                self.args[field.name] = value
            return True
        return False

    async def confirm(self) -> JsonObject | None:
        """Show the call until the person confirms or leaves."""
        while True:
            problem = self._recap()
            line = await self._lines.read(CONFIRM)
            match line and line.strip():
                case None | "n" | "no":
                    return None
                case "" | "y" | "yes" if problem is None:
                    return self.args
                case name if field := self.fields.get(str(name)):
                    if not await self.ask(field):
                        return None
                case "" | "y" | "yes":  # the call is invalid, so it cannot be confirmed
                    continue
                case _:
                    self._say(f"unknown field; the fields are: {', '.join(self.fields)}", "yellow")

    def _recap(self) -> str | None:
        """Show the arguments of the call; return the problem if they are invalid."""
        shown = {}
        for field in self.fields.values():
            if field.default is not None:
                shown[field.name] = f"{_shown(field.default)} (default)"
        for name, value in self.args.items():
            shown[name] = _shown(value)
        end = ":" if shown else " no args"
        self._say(f"{self._tool.name} would be called with{end}", "bold", by=0)
        width = max(map(len, shown), default=0)
        for name in sorted(shown, key=[*self.fields, *shown].index):
            self._say(f"{name:<{width}}  {shown[name]}")
        try:
            self._tool.schema.validate(self.args)
        except InvalidInput as error:
            self._say(str(error), "yellow")
            return str(error)
        return None

    def _check(self, field: FormField, value: object) -> None:
        """Raise InvalidInput if the schema rejects this field; others may still be missing."""
        if value is _LEFT_OUT:
            return
        try:
            self._tool.schema.validate({**self.args, field.name: value})
        except InvalidInput as error:
            if own := field.problems(error):  # problems of other fields come later
                raise InvalidInput(*own) from None

    async def _read(self, field: FormField) -> str | None:
        """Read a value: one line, or several until its quotes or brackets are closed."""
        line = await self._lines.read(visible(_question(field)))
        if line is None:
            return None
        text = line.removesuffix("\n")
        while _is_open(field, text):
            more = await self._lines.read(CONTINUED)
            if not (more or "").strip() and field.type == "json":  # an empty line ends invalid JSON
                break
            if more is None:
                return None
            text += "\n" + more.removesuffix("\n")
        return text

    def _say(self, text: str, style: str = "", by: int = 2) -> None:
        self._lines.console.print(Indented(plain(visible(text), style=style), by, hang=2), end="")


def _is_open(field: FormField, text: str) -> bool:
    """Return True if the value continues on the next line."""
    if field.type == "json":
        return text.strip() != "" and not _is_json(text) and text.lstrip()[:1] in "[{"
    return text.startswith(QUOTES) and not text.endswith(QUOTES, len(QUOTES))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _value(field: FormField, text: str) -> Any:
    """Return the value of a typed line; raise InvalidInput if a required value is empty."""
    if not text.strip():
        if field.required:
            if field.type == "text":
                empty = ', "" is an empty text'
            else:
                empty = ""
            raise InvalidInput(f"a value is required{empty}")
        return _LEFT_OUT
    match field.type:
        case "json":
            return _json(field, text)
        case "boolean":
            return YES_NO.get(text.strip().lower(), text)
        case "select":
            return _choice(field, text.strip())
        case "text" if text == '""':
            return ""
        case "text" if text.startswith(QUOTES):
            return text[len(QUOTES) : -len(QUOTES)].removeprefix("\n")
        case _:
            return text


def _json(field: FormField, text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise InvalidInput("nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"must be JSON: {error}") from None


def _choice(field: FormField, text: str) -> Any:
    """Return the option with this name or number; unknown text is left to the schema."""
    for option in field.options:
        if _option(option) == text:
            return option
    # Cut to 9 digits, because int() refuses numbers of thousands of digits.
    if _is_numbered(field) and text.isdecimal() and 1 <= int(text[:9]) <= len(field.options):
        return field.options[int(text[:9]) - 1]
    return text


def _is_numbered(field: FormField) -> bool:
    """Return True if the options are listed with numbers; options that are numbers are not."""
    if field.type != "select":
        return False
    return not any(_option(option).isdecimal() for option in field.options)


def _option(option: object) -> str:
    if isinstance(option, str):
        return option
    return json.dumps(option, ensure_ascii=False)


def _shown(value: object) -> str:
    return cut(" ⏎ ".join(_option(value).split("\n")), MAX_SHOWN, "end")


def _question(field: FormField) -> str:
    about = ""
    if field.description:
        about = f" ({field.description})"
    return f"{field.name}{about}{_choices(field)}{_fallback(field)}: "


def _choices(field: FormField) -> str:
    if field.type == "boolean":
        return " true|false"
    names = [_option(option) for option in field.options]
    if not names:
        return ""
    if _is_numbered(field):
        return " " + ", ".join(f"{number} {name}" for number, name in enumerate(names, 1))
    return f" {'|'.join(names)}"


def _fallback(field: FormField) -> str:
    if field.required:
        if field.type == "json":
            return " JSON"
        return ""
    if field.default is None:
        return " [optional]"
    return f" [{_shown(field.default)}]"
