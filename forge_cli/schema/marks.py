"""Values with marks of their places in the files that people write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forge_cli.core.errors import Mark
from forge_cli.core.wire import camel_case, snake_case

Loc = tuple[str | int, ...]


class MarkedDict(dict[str, Any]):
    """A mapping with marks of itself, its keys and its values."""

    def __init__(
        self,
        entries: Iterable[tuple[str, Any]] = (),
        *,
        mark: Mark,
        keys: Mapping[str, Mark],
        values: Mapping[str, Mark],
    ) -> None:
        super().__init__(entries)
        self.mark = mark
        self.keys_at = keys
        self.values_at = values


class MarkedList(list[Any]):
    """A sequence with marks of itself and its items."""

    def __init__(self, items: Iterable[Any] = (), *, mark: Mark, items_at: Iterable[Mark]) -> None:
        super().__init__(items)
        self.mark = mark
        self.items_at = tuple(items_at)


def where_in(data: Any, loc: Loc, *, key: bool = False) -> Mark | None:
    """Return the mark of the value at ``loc``, or of the nearest value around it.

    With ``key``, return the mark of the last key instead.
    """
    mark: Mark | None = getattr(data, "mark", None)
    for depth, step in enumerate(loc):
        last = depth == len(loc) - 1
        if isinstance(data, MarkedDict):
            # Marks are kept under the spelling of the file, but ``loc`` may have the other one.
            name = next((name for name in data if step in (name, snake_twin(name))), None)
            if name is None:
                return mark
            # The value of a block starts on a later line; its key is where a reader looks.
            nested = isinstance(data[name], dict | list)
            marks = data.keys_at if nested or (last and key) else data.values_at
            mark = marks[name]
            data = data[name]
        elif isinstance(data, MarkedList) and isinstance(step, int) and step < len(data):
            mark = data.items_at[step]
            data = data[step]
        else:
            return mark
    return mark


def snake_twin(key: str) -> str:
    """Return the snake_case form of a camelCase key; other keys, such as ``Sandbox``, unchanged."""
    name = snake_case(key)
    if camel_case(name) == key:
        return name
    return key


def dotted(loc: Loc) -> str:
    """Return a location in the form of files: ``sandbox.zones[0].mode``."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif text:
            text += f".{step}"
        else:
            text = step
    return text
