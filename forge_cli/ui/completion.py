"""Completions of the text before the cursor: commands, tools, options, zones and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from forge_cli.core.text import visible
from forge_cli.schema.json.forms import FormField, derive_fields
from forge_cli.schema.tool import Tool, manual_tools
from forge_cli.ui.commands.table import COMMANDS
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import Places
from forge_cli.ui.terminal.slash import TOOL_COMMANDS

# Only at the beginning of a word: an e-mail address mentions no file.
_MENTION = re.compile(r'(?<![^\s(])@("?)([^\s"]*)$')
_WORD = re.compile(r"\S*$")
_PLAIN = re.compile(r"[^\s\"'()]+")


class Candidate(Struct, frozen=True):
    """A completion that replaces the last ``length`` characters before the cursor."""

    text: str
    length: int
    summary: str = ""


class InputCompletion(Struct, frozen=True):
    """Completions for the input line of a conversation."""

    facts: Facts
    tools: Callable[[], Sequence[Tool]]
    places: Places

    def candidates(self, text: str) -> list[Candidate]:
        """Return all completions of the text before the cursor, the most likely first."""
        return list(self._candidates(text))

    def is_wanted(self, text: str) -> bool:
        """Return True if completions are shown without Tab: for commands and mentioned files."""
        return _MENTION.search(text) is not None or (text.startswith("/") and "\n" not in text)

    def _candidates(self, text: str) -> Iterator[Candidate]:
        if mention := _MENTION.search(text):
            length = len(mention[0])
            for name in self.places.search(mention[2]):
                yield Candidate(_mention(name), length)
        elif text.startswith("/") and not re.search(r"\s", text):
            yield from self._names(text)
        elif text.startswith("/") and "\n" not in text:
            yield from self._arguments(text)
        elif word := _word(text.removeprefix("!")):  # files in messages and shell lines
            yield from self._files(word)

    def _names(self, text: str) -> Iterator[Candidate]:
        begun = text[1:]
        length = len(text)
        for name, command in COMMANDS.items():
            if name.startswith(begun):
                yield Candidate(f"/{name}", length, command.summary)
        for tool in manual_tools(self.tools()):
            # A command wins over a tool.
            if tool.name.startswith(begun) and tool.name not in COMMANDS:
                yield Candidate(f"/{tool.name}", length, _first_line(tool.description))
        for name, prompt in self.facts.prompts.items():
            if name.startswith(begun) and name not in COMMANDS:
                summary = _first_line(str(prompt.get("description") or ""))
                yield Candidate(f"/{name}", length, summary)
        yield from self._files(text)  # the text may also be an absolute path

    def _arguments(self, text: str) -> Iterator[Candidate]:
        name, *args = text[1:].split()
        word = _word(text)
        # The word at the cursor is incomplete, so it is not one of the arguments before it.
        before = args[: len(args) - bool(word)]
        if name in TOOL_COMMANDS and not before:
            for tool in manual_tools(self.tools()):
                if tool.name.startswith(word):
                    yield Candidate(tool.name, len(word), _first_line(tool.description))
            return
        called = before[0] if name in TOOL_COMMANDS else name
        chosen = next((tool for tool in manual_tools(self.tools()) if tool.name == called), None)
        if name in COMMANDS and name not in TOOL_COMMANDS:
            for each in COMMANDS[name].complete(self.facts, word):
                # A plain string has no note.
                yield Candidate(each, len(word), getattr(each, "note", ""))
        elif chosen is not None:
            yield from self._options(derive_fields(chosen), before, word)
        elif name in self.facts.prompts:
            for argument in self.facts.prompts[name].get("arguments") or ():
                if str(argument["name"]).startswith(word):
                    summary = _first_line(str(argument["description"]))
                    yield Candidate(f"{argument['name']}=", len(word), summary)

    def _options(
        self, fields: Sequence[FormField], before: Sequence[str], word: str
    ) -> Iterator[Candidate]:
        by_option = {f"--{field.name.replace('_', '-')}": field for field in fields}
        last = by_option.get(before[-1]) if before else None
        if last is not None and not word.startswith("-") and (values := _values(last)):
            yield from (Candidate(value, len(word)) for value in values if value.startswith(word))
            return
        if last is not None and last.type == "text" and not word.startswith("-"):
            yield from self._files(word)
        for option, declared in by_option.items():
            if option.startswith(word) and option not in before:
                yield Candidate(option, len(word), _first_line(declared.description or ""))

    def _files(self, word: str) -> Iterator[Candidate]:
        for name in self.places.complete(word):
            yield Candidate(name, len(word))


def _values(field: FormField) -> list[str]:
    if field.type == "boolean":
        return ["true", "false"]
    return [str(option) for option in field.options]


def _mention(name: str) -> str:
    if _PLAIN.fullmatch(name):
        return f"@{name}"
    return f'@"{name}"'


def _word(text: str) -> str:
    found = _WORD.search(text)
    return found[0] if found else ""


def _first_line(text: str) -> str:
    # Descriptions of third-party tools can contain escape sequences.
    return visible(text.strip().partition("\n")[0])
