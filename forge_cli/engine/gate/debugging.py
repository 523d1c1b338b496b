"""Tracebacks of third-party code for whoever debugs it: told to a listener, logged, and never read by a model."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

from forge_cli.core.text import cut
from forge_cli.core.wire import clean_text

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
    """The traceback of an error, from where third-party code begins; whoever listens is told it as well."""
    text = _traceback_text(error)
    if _listener:
        _listener(text)
    return clean_text(cut(text, LOGGED))


def _traceback_text(error: BaseException) -> str:
    try:
        frames = traceback.extract_tb(error.__traceback__)
        first = next((index for index, frame in enumerate(frames) if not _is_ours(frame.filename)), 0)
        lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames[first:])]
        return "".join([*lines, *traceback.format_exception_only(error)])
    except Exception:  # third-party code: an exception that cannot be shown
        return f"{type(error).__name__}, whose traceback cannot be shown\n"


def place_of(error: BaseException) -> str | None:
    """``tools.py:44``, the line in the code of whoever wrote a tool that led to an error; None where there is none.

    That is the last one in the folder in which third-party code begins: what it calls is not its author's.
    """
    theirs = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_ours(frame.filename)]
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
    return file.startswith((os.path.dirname(os.__file__) + os.sep, "<")) and "site-packages" not in file
