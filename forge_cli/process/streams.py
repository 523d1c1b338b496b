"""The standard streams of a command, which survive closed readers and full disks."""

import errno
import io
import os
import sys
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO, TextIO

    from forge_cli.ui.terminal.live import LiveLines


class OutputLost(Exception):
    """Standard output can no longer be written."""

    def __init__(self, error: OSError, *, hung_up: bool = False) -> None:
        """Describe ``error``; ``hung_up`` is True if standard output was a terminal."""
        self.reader_left = error.errno == errno.EPIPE
        self.hung_up = hung_up and error.errno == errno.EIO
        known = {errno.EPIPE: "its reader has left", errno.EBADF: "it is closed"}
        problem = known.get(error.errno or 0) or error.strerror or str(error)
        super().__init__(f"standard output cannot be written: {problem}")


class _LiveStream(io.TextIOWrapper):
    """A stream whose text appears above the live lines of the terminal."""

    live: "LiveLines | None" = None

    def write(self, text: str) -> int:
        if self.live is None:
            return self._write(text)
        with self.live.writing(text):
            written = self._write(text)
            self.flush()
        return written

    def _write(self, text: str) -> int:
        return super().write(text)


class ErrorStream(_LiveStream):
    """Standard error, which drops all further text after a failed write."""

    def _write(self, text: str) -> int:
        try:
            return super()._write(text)
        except OSError:
            silence(self.fileno())
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            silence(self.fileno())


class DataStream(_LiveStream):
    """Standard output: a failed write calls ``on_loss`` once, or raises OutputLost."""

    lost: OutputLost | None = None
    on_loss: Callable[[], object] | None = None

    def __init__(
        self,
        buffer: "BinaryIO",
        *,
        encoding: str | None = None,
        errors: str | None = None,
        line_buffering: bool = False,
        write_through: bool = False,
    ) -> None:
        super().__init__(
            buffer,
            encoding=encoding,
            errors=errors,
            line_buffering=line_buffering,
            write_through=write_through,
        )
        self._was_terminal = self.isatty()  # isatty is False once the terminal is closed

    def _write(self, text: str) -> int:
        if self.lost is not None and self.on_loss is None:
            raise self.lost
        try:
            return super()._write(text)
        except OSError as error:
            self._lose(error)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        silence(self.fileno())
        self.lost = OutputLost(error, hung_up=self._was_terminal)
        if self.on_loss is None:
            raise self.lost from None
        self.on_loss()


def live_lines() -> "LiveLines | None":
    """Return the live lines on the terminal of standard error, if a command draws any."""
    return sys.stderr.live if isinstance(sys.stderr, ErrorStream) else None


def draw_below(live: "LiveLines", out: "TextIO") -> None:
    """Write the text of standard error and ``out`` above the ``live`` lines from now on."""
    for stream in (sys.stderr, out):
        if isinstance(stream, ErrorStream | DataStream) and stream.isatty():
            stream.live = live


def erase_live_lines() -> None:
    """Erase the live lines for good, for example before the process ends."""
    if live := live_lines():
        live.close()


def silence(descriptor: int) -> None:
    """Send all later writes to /dev/null, so that the flush at exit does not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor:  # equal if the descriptor was closed, so that open() took it
        os.dup2(null, descriptor)
        os.close(null)


def open_missing_streams() -> None:
    """Open /dev/null for each closed standard stream.

    Otherwise the next opened file would get its descriptor.
    """
    for name, mode, access in (
        ("stdin", "r", os.O_RDWR),
        ("stdout", "w", os.O_RDONLY),  # writes fail: an answer that is not delivered is an error
        ("stderr", "w", os.O_RDWR),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))


def guard_streams() -> None:
    """Make standard output and error write UTF-8 in every locale and survive failed writes."""
    for name, kind in (("stdout", DataStream), ("stderr", ErrorStream)):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            lines = stream.line_buffering
            through = stream.write_through
            guarded = kind(
                stream.detach(),
                encoding="utf-8",
                errors="backslashreplace",
                line_buffering=lines,
                write_through=through,
            )
            setattr(sys, name, guarded)
            # the same stream by another name, which is unusable since it was detached
            setattr(sys, f"__{name}__", guarded)
