"""The message, the result object and the exit code of a command that ends by an exception."""

from __future__ import annotations

import errno
import os
import sys
import termios
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.cli.output import code_of
from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.core.hangup import is_hung_up
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.process.streams import OutputLost
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.ui.wrap import wrap_for

if TYPE_CHECKING:
    from forge_cli.process.report import ResultReport

_REMEDIES = {
    errno.EROFS: "make its file system writable",
    errno.ENOSPC: "free some space there",
    errno.EDQUOT: "free some space within your quota",
    errno.EACCES: "make it readable and writable for you",
    errno.EPERM: "make it readable and writable for you",
}
"""Remedies for system errors that are not forge's own."""


def explain(
    error: BaseException, *, debug: bool = False, report: ResultReport | None = None
) -> int:
    """Print why the command ended, put it into the result object, and return the exit code."""
    code, sentence, shown = describe(error, debug=debug)
    if sentence is not None:
        if debug:
            traceback.print_exception(error)
        sentence = redacted(sentence)
        say(sentence, shown and redacted(shown))
    if report is not None:
        with suppress(OutputLost):
            code = report.fail(code, sentence)
    return code


def describe(error: BaseException, *, debug: bool) -> tuple[int, str | None, str | None]:
    """Return the exit code, the message if there is one, and its longer form for a person."""
    cause = error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, SystemExit) and isinstance(cause.code, int | None):
        return cause.code or 0, None, None
    stop = None if isinstance(cause, ForgeError) else find_stop(cause)
    if stop is not None:
        return getattr(stop, "exit_code", 130), None, None
    if isinstance(cause, OutputLost):
        # a reader such as head leaves on purpose, which needs no message
        sentence = None if cause.reader_left else str(cause)
        return code_of(cause), sentence, None
    if is_of_closed_terminal(cause):
        return ExitCode.HUNG_UP, None, None
    if isinstance(cause, ForgeError):
        return cause.exit_code, str(cause), getattr(cause, "shown", None)
    more = "" if debug else "; --debug shows the traceback"
    if isinstance(cause, FileNotFoundError) and not has_working_directory():
        return 1, "the working directory was deleted\n  cd to another folder", None
    if isinstance(cause, OSError):
        return 1, _system_error(cause, more), None
    told = " ".join(traceback.format_exception_only(cause)[-1].split())
    return 1, f"internal error: {told}{more}", None


def _system_error(error: OSError, more: str) -> str:
    place = ""
    if isinstance(error.filename, (str, bytes)):
        place = os.fsdecode(error.filename)
    remedy = _REMEDIES.get(error.errno or 0)
    if not place or remedy is None:
        at = f": {place}" if place else ""
        return f"{error.strerror or error}{at}{more}"
    home = forge_home()
    if Path(place).is_relative_to(home):
        remedy = f"{remedy}, or set FORGE_HOME to a writable folder instead of {home}"
    return f"{place} cannot be used: {error.strerror}\n  {remedy}"


def is_of_closed_terminal(error: BaseException) -> bool:
    """Return True if the command failed because its terminal was closed."""
    if not isinstance(error, OSError | termios.error) or error.args[:1] != (errno.EIO,):
        return False
    return any(is_hung_up(fd) for fd in (0, 2))


def find_stop(error: BaseException | None) -> BaseException | None:
    """Return the signal that caused an error, or None.

    Python wraps an exception that is raised while it makes a class.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def has_working_directory() -> bool:
    """Return True if the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def redacted(sentence: str) -> str:
    """Return the text without the user's secrets."""
    return own_redactor().redact_text(sentence)


def say(sentence: str, shown: str | None = None) -> None:
    """Print an error, without control characters and wrapped to the terminal."""
    text = visible(shown or f"forge: {sentence}", keep="\n\t")
    if sys.stderr.isatty():
        text = wrap_for(sys.stderr, text)
    sys.stderr.write(f"{text}\n")


def say_traceback(text: str) -> None:
    """Print the traceback of third-party code, without secrets and control characters."""
    sys.stderr.write(visible(redacted(text), keep="\n"))
