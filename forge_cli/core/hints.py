"""How a UI may show a result, and what the well-known kinds of results have in common."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_type_hints

from forge_cli import core
from forge_cli.core.wire import Unreadable, own_reader, snake_case, wire


@dataclass(frozen=True)
class DisplayHints:
    """How a UI may show a result; never what the model reads."""

    preferred_view: Literal["text", "markdown", "code", "table", "tree", "hidden"] | None = None
    language: str | None = None
    collapsed: bool | None = None
    max_height: int | None = None

    def wire(self) -> dict[str, Any]:
        """The hints as JSON."""
        return wire(self)


@dataclass(frozen=True)
class KnownResult:
    """What the well-known kinds share; a result on the wire starts with its kind."""

    kind: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """The result as JSON."""
        return {"kind": self.kind, **wire(self)}


def read_display(data: Any) -> DisplayHints:
    """Hints that can be taken; a result does not depend on them."""
    hints: dict[str, Any] = {}
    types = get_type_hints(DisplayHints)
    for key, value in data.items() if isinstance(data, Mapping) else ():
        name = snake_case(str(key))
        with suppress(KeyError, Unreadable):
            hints[name] = core.reading.reader(types[name])(value)
    return DisplayHints(**hints)


own_reader(DisplayHints, read_display)
