"""Marks of the places of values in the files that people write, kept beside the values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from forge_cli.core.errors import Mark
from forge_cli.core.wire import camel_case, snake_case

Loc = tuple[str | int, ...]


class MarkedDict(dict[str, Any]):
    """A mapping that knows where in a file it stands, and where each of its keys and values does."""

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
    """A sequence that knows where in a file it and each of its items stand."""

    def __init__(self, items: Iterable[Any] = (), *, mark: Mark, items_at: Iterable[Mark]) -> None:
        super().__init__(items)
        self.mark = mark
        self.items_at = tuple(items_at)


def where_in(data: Any, loc: Loc, *, key: bool = False) -> Mark | None:
    """The mark of the value at ``loc`` below ``data`` (of its key, with ``key``), or of the nearest thing around it."""
    mark: Mark | None = getattr(data, "mark", None)
    for depth, step in enumerate(loc):
        last = depth == len(loc) - 1
        if isinstance(data, MarkedDict):
            name = next((name for name in data if step in (name, snake_twin(name))), None)
            if name is None:
                return mark
            nested = isinstance(data[name], dict | list)
            mark = (data.keys_at if nested or (last and key) else data.values_at)[name]
            data = data[name]
        elif isinstance(data, MarkedList) and isinstance(step, int) and step < len(data):
            mark = data.items_at[step]
            data = data[step]
        else:
            return mark
    return mark


def snake_twin(key: str) -> str:
    """``needs_approval`` of ``needsApproval``; every other key, such as ``Sandbox``, is another key."""
    name = snake_case(key)
    return name if camel_case(name) == key else key


def dotted(loc: Loc) -> str:
    """``("sandbox", "zones", 0, "mode")`` as people write it: ``sandbox.zones[0].mode``."""
    text = ""
    for step in loc:
        if isinstance(step, int):
            text += f"[{step}]"
        elif text:
            text += f".{step}"
        else:
            text = step
    return text
