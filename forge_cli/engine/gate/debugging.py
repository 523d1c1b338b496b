"""Help for tool authors: tracebacks of their code, and values that JSON cannot represent."""

from __future__ import annotations

import dataclasses
import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from forge_cli.core.text import cut
from forge_cli.core.wire import clean_text, jsonable

Listener = Callable[[str], None]

MAX_LOGGED = 8_000
"""The most characters of a traceback in a log."""
_OURS = str(Path(__file__).parents[2]) + os.sep
_listener: Listener | None = None


def listen_to_tracebacks(listener: Listener | None) -> None:
    """Pass each further traceback to ``listener``."""
    global _listener
    _listener = listener


def report_traceback(error: BaseException) -> str:
    """Report a traceback to the listener, and return it from the first third-party frame on."""
    text = _traceback_text(error)
    if _listener:
        _listener(text)
    return clean_text(cut(text, MAX_LOGGED))


def _traceback_text(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if not _is_ours(frame.filename)), 0)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[first:])]
    return "".join([*lines, *traceback.format_exception_only(error)])


def place_of(error: BaseException) -> str | None:
    """Return the line of a tool's own code that led to an error, as ``tools.py:44``, or None.

    It is the last frame in the folder in which third-party code begins; code that this calls is not
    the author's.
    """
    theirs = [
        frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)
    ]
    theirs = [frame for frame in theirs if not _is_library(frame.filename)] or theirs
    if not theirs:
        return None
    folder = os.path.dirname(theirs[0].filename)
    last = [frame for frame in theirs if os.path.dirname(frame.filename) == folder][-1]
    return f"{os.path.basename(last.filename)}:{last.lineno}"


def _is_ours(file: str) -> bool:
    # A tool that is not async runs in a thread of anyio, whose frames come before its own.
    return file.startswith(_OURS) or f"{os.sep}anyio{os.sep}" in file


def _is_library(file: str) -> bool:
    """Return True if a file belongs to the standard library."""
    return (
        # Frozen modules have names such as <frozen importlib._bootstrap>.
        file.startswith((os.path.dirname(os.__file__) + os.sep, "<"))
        and "site-packages" not in file
    )


def find_unwritable(value: Any) -> str | None:
    """Return the first part of a value that JSON cannot represent, or None."""
    if value is None or isinstance(value, str | bool | Enum | PurePath):
        return None
    if isinstance(value, int | float | bytes | bytearray | memoryview):
        text = jsonable(value)
        # ``jsonable`` replaces binary data by a description in brackets, and NaN by its name.
        if isinstance(text, str) and (text.startswith("[") or isinstance(value, float)):
            return text.strip("[]")
        return None
    if isinstance(value, Mapping):
        parts: Iterable[Any] = value.values()
    elif isinstance(value, Set | Sequence):
        parts = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    else:
        if hasattr(value, "model_dump"):  # a pydantic model
            return None
        return f"a value of the type {type(value).__name__}"
    for part in parts:
        if found := find_unwritable(part):
            return found
    return None
