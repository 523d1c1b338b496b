"""From frozen values to the JSON that goes out: camelCase keys, absent things left out."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from typing import Any

from forge_cli.core.errors import Mark

MAX_DEPTH = 60
MAX_BITS = 14_000
"""Python refuses to write larger integers as decimal digits."""


def camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def clean_text(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates become visible escapes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def wire(value: Any) -> dict[str, Any]:
    """A frozen dataclass as a JSON object; a field that may be absent (its default is None) is left out when it is."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if item is not None or field.default is not None:
            found[camel_case(field.name)] = _field(item)
    return found


def _field(item: Any) -> Any:
    if hasattr(item, "wire"):
        return item.wire()
    if isinstance(item, Mark):
        return str(item)
    if isinstance(item, list | tuple):
        return [_field(entry) for entry in item]
    return jsonable(item)


def jsonable(value: Any) -> Any:
    """Any Python value as plain JSON data: cycles are cut, odd things become their text, nothing ever raises."""
    return _plain(value, ())


def _plain(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value, above)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_BITS else f"[an integer of {value.bit_length()} bits]"
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return text_of_bytes(bytes(value))
    if id(value) in above:
        return "[the same value again]"
    if len(above) >= MAX_DEPTH:
        return "[nested too deep]"
    return _nested(value, (*above, id(value)))


def _nested(value: Any, above: tuple[int, ...]) -> Any:
    if isinstance(value, Mapping):
        return {
            clean_text(key if isinstance(key, str) else _safe_text(key)): _plain(item, above)
            for key, item in value.items()
        }
    if isinstance(value, Set):
        return sorted((_plain(item, above) for item in value), key=repr)
    if isinstance(value, Sequence):
        return [_plain(item, above) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), above) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(), above)
    return clean_text(str(value) if isinstance(value, PurePath) else _safe_text(value))


def text_of_bytes(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[{len(data)} bytes that are no UTF-8 text]"


def error_text(error: BaseException) -> str:
    """An error of foreign code in one sentence: its type and what it says."""
    message = clean_text(_safe_text(error)).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _safe_text(value: Any) -> str:
    """What an object says of itself; a ``__str__`` is foreign code and may fail."""
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(value))
    except Exception:
        return f"[a {type(value).__name__} that cannot be shown]"
