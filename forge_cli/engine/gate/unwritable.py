"""Values that JSON cannot carry, for those who try their tools."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from typing import Any

from forge_cli.core.wire import MAX_DEPTH, jsonable


def find_unwritable(value: Any, enclosing: tuple[int, ...] = ()) -> str | None:
    """The first part of a value that JSON cannot carry, where its text would stand; None where it can carry all."""
    if value is None or isinstance(value, str | bool | Enum | PurePath):
        return None
    if isinstance(value, int | float | bytes | bytearray | memoryview):
        odd = isinstance(value, float) and not math.isfinite(value)
        text = jsonable(value)
        return text.strip("[]") if odd or (isinstance(text, str) and text.startswith("[")) else None
    if id(value) in enclosing or len(enclosing) >= MAX_DEPTH:
        return "something that holds itself" if id(value) in enclosing else "something nested too deep"
    if isinstance(value, Mapping):
        parts: Iterable[Any] = value.values()
    elif isinstance(value, Set | Sequence):
        parts = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    else:
        return None if hasattr(value, "model_dump") else f"a value of the type {type(value).__name__}"
    found = (find_unwritable(part, (*enclosing, id(value))) for part in parts)
    return next((part for part in found if part), None)
