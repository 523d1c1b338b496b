"""Standard output is for data: what tools, plugins and their child processes print goes to standard error instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO


@contextmanager
def data_output() -> Iterator[TextIO]:
    """Yield the stream for our own data; until the end, ``print`` and descriptor 1 lead to standard error."""
    stdout = sys.stdout
    stdout.flush()
    if not _is_descriptor_1(stdout):
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    with open(os.dup(1), "w", encoding=stdout.encoding, errors=stdout.errors) as out:
        os.dup2(2, 1)
        try:
            with redirect_stdout(sys.stderr):
                yield out
        finally:
            os.dup2(out.fileno(), 1)


def _is_descriptor_1(stream: TextIO) -> bool:
    """A program that calls commands may have put something else in the place of standard output."""
    try:
        return stream.fileno() == 1
    except (OSError, ValueError):
        return False
