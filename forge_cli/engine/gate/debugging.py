"""Help for authors of tools: tracebacks of their code, told to a listener and logged, and values beyond JSON."""

from __future__ import annotations

import dataclasses
import math
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

LOGGED = 8_000
"""Characters of a traceback that a log keeps."""
_OURS = str(Path(__file__).parents[2]) + os.sep
_listener: Listener | None = None


def listen_to_tracebacks(listener: Listener | None) -> None:
    """Give each further traceback to ``listener``."""
    global _listener
    _listener = listener


def tell_traceback(error: BaseException) -> str:
    """The traceback of an error, from where third-party code begins; the listener of ``--debug`` gets it, too."""
    text = _traceback_text(error)
    if _listener:
        _listener(text)
    return clean_text(cut(text, LOGGED))


def _traceback_text(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    first = next((index for index, frame in enumerate(frames) if not _is_ours(frame.filename)), 0)
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[first:])]
    return "".join([*lines, *traceback.format_exception_only(error)])


def place_of(error: BaseException) -> str | None:
    """``tools.py:44``, the line in a tool's own code that led to an error; None where there is none.

    That is the last one in the folder in which third-party code begins: what it calls is not its author's.
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
    return file.startswith(_OURS) or f"{os.sep}anyio{os.sep}" in file


def _is_library(file: str) -> bool:
    """Does a file belong to Python itself?"""
    return (
        file.startswith((os.path.dirname(os.__file__) + os.sep, "<"))
        and "site-packages" not in file
    )


def find_unwritable(value: Any) -> str | None:
    """The first part of a value that JSON cannot carry, where its text would stand; None where it can carry all."""
    if value is None or isinstance(value, str | bool | Enum | PurePath):
        return None
    if isinstance(value, int | float | bytes | bytearray | memoryview):
        odd = isinstance(value, float) and not math.isfinite(value)
        text = jsonable(value)
        return text.strip("[]") if odd or (isinstance(text, str) and text.startswith("[")) else None
    if isinstance(value, Mapping):
        parts: Iterable[Any] = value.values()
    elif isinstance(value, Set | Sequence):
        parts = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Struct):
        parts = [getattr(value, name) for name in value.__struct_fields__]
    else:
        return (
            None if hasattr(value, "model_dump") else f"a value of the type {type(value).__name__}"
        )
    found = (find_unwritable(part) for part in parts)
    return next((part for part in found if part), None)
