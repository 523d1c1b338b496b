"""The start of a command: held signals, and the result object that its options ask for."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing typing would take longer than the rest of this module
if TYPE_CHECKING:
    from forge_cli.process.report import ResultReport


class Launch:
    """State that the outermost frame shares with the command that it runs."""

    def __init__(self, mask: set[int | signal.Signals] | None = None) -> None:
        """Keep the signal ``mask`` to restore; if it is None, no signals are held."""
        self._mask = mask
        self.report: ResultReport | None = None
        """The result object to print in any case; None until the options ask for it."""

    def release_signals(self) -> None:
        """Deliver the signals that were held."""
        if self._mask is not None:
            mask = self._mask
            self._mask = None
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def end_on_signals(self) -> None:
        """Raise signals as exceptions from now on, so that open resources are cleaned up."""
        try:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, _terminate)
            if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        except ValueError:  # only the main thread may
            return
        sys.unraisablehook = self._end_if_stopped

    def _end_if_stopped(self, dropped: sys.UnraisableHookArgs) -> None:
        """End the process if Python drops the exception of a signal.

        Python drops what is raised in its own callbacks, for example at the end of an import.
        """
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(dropped)
            return
        code = getattr(dropped.exc_value, "exit_code", 128 + signal.SIGINT)
        try:
            if self.report is not None:
                code = self.report.fail(code)
        finally:
            os._exit(code)


def _terminate(number: int, frame: object) -> None:
    from forge_cli.core.errors import Terminated

    raise Terminated(128 + number)
