"""Choices of a form's field, with their titles, and how a typed line selects one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from forge_cli.core.text import cut, visible
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, as_mapping, choices
from forge_cli.schema.json.problems import shown

MAX_TITLE = 80
"""Characters of the title of one choice."""


class Choice(Struct, frozen=True):
    """A value that can be selected, with its title if it has one."""

    value: Any
    title: str = ""

    @property
    def name(self) -> str:
        """The value as people type it."""
        # ``shown`` quotes texts.
        return shown(self.value).strip("'")

    def describe(self) -> str:
        """Return the name with the title, as ``hero-1: Superman``."""
        if not self.title or self.title == self.name:
            return self.name
        return f"{self.name}: {self.title}"

    def is_meant(self, line: str) -> bool:
        return line in (self.name, self.title) or line.casefold() == self.title.casefold()


class Choices(Struct, frozen=True):
    """The choices of a field; with ``many``, a line selects several, separated by commas."""

    listed: tuple[Choice, ...]
    many: bool = False

    @property
    def options(self) -> list[str]:
        """The lines that select each choice: titles, unless they could be confused."""
        names = [choice.name for choice in self.listed]
        titles = [choice.title or choice.name for choice in self.listed]
        if self.many:
            return []
        folded = {title.casefold() for title in titles}
        if len(folded) < len(titles):
            return names
        for title, name in zip(titles, names, strict=True):
            if title in names and title != name:
                return names
        return titles

    def describe(self) -> str:
        """Return ``red|blue``, or with titles ``hero-1: Superman|hero-2: Green Lantern``."""
        listed = "|".join(choice.describe() for choice in self.listed)
        if self.many:
            return f"several of {listed}, separated by commas"
        return listed

    def pick(self, line: str) -> Any:
        """Return the value that a line selects, or the line itself, which the schema refuses."""
        if not self.many:
            return self._one(line)
        if line.startswith("["):
            return line  # a list in JSON
        return [self._one(part.strip()) for part in line.split(",") if part.strip()]

    def _one(self, line: str) -> Any:
        exact = [choice.value for choice in self.listed if choice.name == line]
        if exact:
            return exact[0]
        meant = [choice.value for choice in self.listed if choice.is_meant(line)]
        return meant[0] if len(meant) == 1 else line


def choices_of(declared: Any, root: JsonObject) -> Choices | None:
    """Return the choices of a field or of a list's items; None if other values fit as well."""
    own = as_mapping(declared)
    branches = alternatives(declared, root)
    lists = [branch for branch in branches if branch.get("type") == "array"]
    if len(lists) == 1 and "enum" not in own:
        items = as_mapping(lists[0].get("items"))
        listed = tuple(_listed(items, root) or ())
        return Choices(listed, many=True) if listed else None
    listed = tuple(_listed(own, root) or ())
    return Choices(listed) if listed else None


def _listed(declared: JsonObject, root: JsonObject) -> list[Choice] | None:
    found: list[Choice] = []
    for branch in alternatives(declared, root):
        values = choices(branch)
        if values is None and branch.get("type") != "null":
            return None
        found += _titled(branch, [value for value in values or () if value is not None])
    return found


def _titled(branch: JsonObject, values: Sequence[Any]) -> Iterator[Choice]:
    """Yield the choices of one alternative, with the title of ``const`` or ``enumNames``."""
    names = branch.get("enumNames")
    if "const" in branch:
        names = [branch.get("title")]
    for at, value in enumerate(values):
        name = None
        if isinstance(names, list) and at < len(names):
            name = names[at]
        title = ""
        if isinstance(name, str):
            title = visible(cut(name, MAX_TITLE, "end"))
        yield Choice(value, title)
