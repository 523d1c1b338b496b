"""Protection of standard output, which is for data: prints of tools go to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

from forge_cli.core.errors import ExitCode
from forge_cli.core.interrupt import HUNG_UP
from forge_cli.process.streams import DataStream, OutputLost


@contextmanager
def data_output() -> Iterator[TextIO]:
    """Yield the stream for data; meanwhile ``print`` and descriptor 1 write to standard error."""
    stdout = sys.stdout
    stdout.flush()
    if not _is_descriptor_1(stdout):
        # a calling program has redirected sys.stdout; its descriptors are its own
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    buffer = os.fdopen(os.dup(1), "wb")
    encoding = stdout.encoding
    errors = stdout.errors
    with (
        buffer,
        DataStream(buffer, encoding=encoding, errors=errors, line_buffering=stdout.isatty()) as out,
    ):
        # the descriptor, too: C code and child processes of tools do not know sys.stdout
        os.dup2(2, 1)
        try:
            with redirect_stdout(sys.stderr):
                yield out
        finally:
            os.dup2(out.fileno(), 1)


def stop_on_loss(out: TextIO, stop: Callable[[str], object]) -> None:
    """Call ``stop`` with the reason if output can no longer be written, instead of raising."""
    if isinstance(out, DataStream):

        def report() -> None:
            stop(HUNG_UP if out.lost and out.lost.hung_up else "standard output was closed")

        out.on_loss = report


def loss_of(out: TextIO) -> OutputLost | None:
    """Return why the data could not be written, or None."""
    return out.lost if isinstance(out, DataStream) else None


def code_of(loss: OutputLost) -> ExitCode:
    """Return the exit code of a command whose data could not be written."""
    return ExitCode.HUNG_UP if loss.hung_up else ExitCode.FAILED


def _is_descriptor_1(stream: TextIO) -> bool:
    """Return True for the real standard output; a calling program may have replaced it."""
    try:
        return stream.fileno() == 1
    except (OSError, ValueError):
        return False
