"""JSON as a request carries it: what JSON or UTF-8 has no place for becomes visible text, and nothing ever raises."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from forge_cli.core.wire import jsonable

_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_spaced = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def json_bytes(value: Any) -> bytes:
    """In UTF-8, with no space between its parts."""
    return _json(value, _compact).encode()


def json_within(value: Any) -> str:
    """JSON that is text within a request, such as the args of a call."""
    return _json(value, _spaced)


def _json(value: Any, encode: Callable[[Any], str]) -> str:
    try:
        text = encode(value)
    except (TypeError, ValueError, RecursionError):
        text = encode(jsonable(value))
    return text if _fits_utf8(text) else _LONE_SURROGATE.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text)


def _fits_utf8(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
