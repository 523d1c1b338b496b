"""Signals between the start of a command and the work that it stops itself."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from forge_cli.core.errors import Terminated

if TYPE_CHECKING:
    from forge_cli.process.report import ResultReport


def end_on_signals(report: ResultReport | None) -> None:
    """From now on there may be something to clean up: until a command stops its work itself, signals are raised.

    Python drops what is raised in a callback of its own, such as at the end of an import: then the process ends there.
    """

    def end(dropped: sys.UnraisableHookArgs) -> None:
        if not isinstance(dropped.exc_value, KeyboardInterrupt):
            sys.__unraisablehook__(dropped)
            return
        code = getattr(dropped.exc_value, "exit_code", 128 + signal.SIGINT)
        try:
            if report is not None:
                code = report.fail(code)
        finally:
            os._exit(code)

    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminate)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = end


def _terminate(number: int, frame: object) -> None:
    raise Terminated(128 + number)
