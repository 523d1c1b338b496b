"""The standard streams of a command: standard error never stops the work, and a lost standard output has a name."""

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
    """Standard output cannot be written any more."""

    def __init__(self, error: OSError, *, hung_up: bool = False) -> None:
        """``hung_up`` says that it was a terminal that was closed."""
        self.reader_left = error.errno == errno.EPIPE
        self.hung_up = hung_up and error.errno == errno.EIO
        known = {errno.EPIPE: "its reader has left", errno.EBADF: "it is closed"}
        problem = known.get(error.errno or 0) or error.strerror or str(error)
        super().__init__(f"standard output cannot be written: {problem}")


class _LiveStream(io.TextIOWrapper):
    """A stream that is written above the lines which are drawn again and again, where there are any."""

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
    """Standard error: what cannot be written is dropped, then and from then on."""

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
    """Standard output: what cannot be written raises OutputLost, or is told to ``on_loss`` once and dropped."""

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
        self._was_terminal = self.isatty()  # one that was closed is none for the system

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
    """Lines below the text on the terminal of standard error, where a command draws something there."""
    return sys.stderr.live if isinstance(sys.stderr, ErrorStream) else None


def draw_below(live: "LiveLines", out: "TextIO") -> None:
    """Let everything that standard error and ``out`` write to the terminal make room for live lines, from now on."""
    for stream in (sys.stderr, out):
        if isinstance(stream, ErrorStream | DataStream) and stream.isatty():
            stream.live = live


def erase_live_lines() -> None:
    """Leave the terminal as the shell wants it: before the process ends, and where nothing but the answer is wanted."""
    if live := live_lines():
        live.close()


def silence(descriptor: int) -> None:
    """Let every later write succeed, that of the interpreter's own flush at exit included: it has nowhere to go."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)


def open_missing_streams() -> None:
    """Give a closed standard stream to /dev/null, or the next file that is opened would get its descriptor.

    That of standard output cannot be written: an answer that is not delivered is an error, as on a full disk.
    """
    for name, mode, access in (
        ("stdin", "r", os.O_RDWR),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_RDWR),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))


def guard_streams() -> None:
    """Write UTF-8 in every locale, escape what cannot be written, and survive what cannot be written to."""
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
            setattr(sys, f"__{name}__", guarded)
