"""The choices of a field in a form, with the titles that people read, and what a line that was typed picks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from forge_cli.core.text import cut, visible
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, as_mapping, choices
from forge_cli.schema.json.problems import shown

TITLE = 80
"""Characters of the title of one choice."""


class Choice(Struct, frozen=True):
    """A value that can be picked, and its title where it has one."""

    value: Any
    title: str = ""

    @property
    def name(self) -> str:
        """The value as people type it."""
        return shown(self.value).strip("'")

    def describe(self) -> str:
        """``hero-1: Superman``"""
        return f"{self.name}: {self.title}" if self.title and self.title != self.name else self.name

    def is_meant(self, line: str) -> bool:
        return line in (self.name, self.title) or line.casefold() == self.title.casefold()


class Choices(Struct, frozen=True):
    """All that a field offers; with ``many`` a line picks several, with commas between."""

    listed: tuple[Choice, ...]
    many: bool = False

    @property
    def options(self) -> list[str]:
        """The lines that answer it; titles, where no two choices can be confused by them."""
        names = [choice.name for choice in self.listed]
        titles = [choice.title or choice.name for choice in self.listed]
        if self.many:
            return []
        told = {title.casefold() for title in titles}
        confused = len(told) < len(titles) or any(
            title in names and title != name for title, name in zip(titles, names, strict=True)
        )
        return names if confused else titles

    def describe(self) -> str:
        """``red|blue``, or with titles ``hero-1: Superman|hero-2: Green Lantern``."""
        told = "|".join(choice.describe() for choice in self.listed)
        return f"several of {told}, with commas between" if self.many else told

    def pick(self, line: str) -> Any:
        """The value that a line means, or the line itself, which the schema then refuses."""
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
    """The choices of a field, or of the items of a list; None where any other value fits as well."""
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
    """The values of one alternative: a ``const`` has its own title, an ``enum`` may have ``enumNames``."""
    names = branch.get("enumNames")
    if "const" in branch:
        names = [branch.get("title")]
    for at, value in enumerate(values):
        name = names[at] if isinstance(names, list) and at < len(names) else None
        yield Choice(value, visible(cut(name, TITLE, "end")) if isinstance(name, str) else "")
