"""The console script: it knows the version and how to end, and loads everything else once it is needed."""

import gc
import os
import signal
import sys
import time
from itertools import pairwise

from forge_cli import __version__
from forge_cli.process.streams import OutputLost, erase_live_lines, guard_streams, open_missing_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from forge_cli.process.report import ResultReport

STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
"""The signals that end a program; other systems have fewer, and learn in a moment that they are not supported."""
LAST_WAIT = 0.5
"""Seconds that threads have to end, once everything is written."""


def main(mask: set[int | signal.Signals] | None = None) -> int:
    """Carry out ``sys.argv`` and return the exit code; ``mask`` is to be set again where signals are held already."""
    if sys.platform not in ("linux", "darwin"):
        sys.stderr.write("forge: only Linux and macOS are supported; on Windows, use WSL\n")
        return 2
    # by default the garbage of imports is looked for every 700 objects, a twentieth of the time that a start takes
    gc.set_threshold(200_000)
    since = time.monotonic() - time.process_time()  # when the process began, but for what it had to wait
    report: ResultReport | None = None

    def leave_at_once(number: int, frame: object) -> None:
        erase_live_lines()
        try:
            if report is not None:
                report.fail(128 + number)
        finally:
            os._exit(128 + number)

    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until it is known what has to be printed then
    on_stop(leave_at_once)
    open_missing_streams()
    guard_streams()
    args, debug = take_debug(sys.argv[1:])
    report = find_report(args)
    signal.pthread_sigmask(signal.SIG_SETMASK, before if mask is None else mask)
    if args[:1] in (["run"], ["chat"], ["batch"]) and sys.stderr.isatty():
        from forge_cli.cli.early import show_sign_of_life

        show_sign_of_life(args, since)
    code = attempt(args, debug=debug, report=report)
    erase_live_lines()
    on_stop(lambda number, frame: os._exit(code))
    return leave(code)


def on_stop(handler: "Callable[[int, object], None]") -> None:
    """Handle the signals that end a program, unless they are ignored, as with nohup.

    Until a command is loaded there is nothing to stop in good order, and an exception raised into an import comes out
    as something else: the first handler leaves at once.
    """
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            try:
                signal.signal(number, handler)
            except ValueError:  # only the main thread may
                return


def find_report(args: list[str]) -> "ResultReport | None":
    """The result object that has to be printed in any case, where the arguments seem to ask for one."""
    if args[:1] != ["run"]:
        return None
    given = args[: args.index("--")] if "--" in args else args
    forms = [value for name, value in pairwise(given) if name == "--output-format"]
    forms += [arg.partition("=")[2] for arg in given if arg.startswith("--output-format=")]
    form = "stream-json" if "--json" in given else (forms or [""])[-1]
    if form not in ("json", "stream-json"):
        return None
    from forge_cli.process.report import ResultReport

    return ResultReport(form)


def attempt(args: list[str], *, debug: bool = False, report: "ResultReport | None" = None) -> int:
    """Carry the arguments out; the outermost frame, where an exception becomes a sentence and an exit code."""
    code = 0
    if debug:
        from forge_cli.cli.failure import say_traceback
        from forge_cli.engine.gate.debugging import listen_to_tracebacks

        listen_to_tracebacks(say_traceback)
    try:
        code = carry_out(args, report)
        sys.stdout.flush()
    except BaseException as error:
        from forge_cli.cli.failure import explain

        failure = explain(error, debug=debug, report=report)
        code = code or failure
    return code


def take_debug(args: list[str]) -> tuple[list[str], bool]:
    """Split ``--debug`` off, wherever it stands before a ``--``."""
    end = args.index("--") if "--" in args else len(args)
    kept = [arg for arg in args[:end] if arg != "--debug"]
    return kept + args[end:], len(kept) < end


def carry_out(args: list[str], report: "ResultReport | None" = None) -> int:
    if args[:1] in (["--version"], ["-V"]):
        sys.stdout.write(f"forge {__version__}\n")
        return 0
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would read the metadata of all packages
    if "_FORGE_COMPLETE" in os.environ:
        from forge_cli.cli.completion import answer

        return answer(args)
    if not args:
        if sys.stdin.isatty() and sys.stderr.isatty():
            from forge_cli.cli.offer import offer_talk

            args = offer_talk()
        if not args:
            from forge_cli.cli.welcome import welcome

            sys.stdout.write(welcome())
            return 0
    if args[0] == "--install-completion":
        from forge_cli.cli.completion import install

        sys.stdout.write(install(args[1] if len(args) > 1 else None))
        return 0
    from forge_cli.cli.commands import dispatch

    return dispatch(args, report)


def leave(code: int) -> int:
    """Flush, and do not wait for threads that would hold the process."""
    try:  # noqa: SIM105
        sys.stdout.flush()
    except OutputLost:
        pass
    sys.stderr.flush()
    if threading := sys.modules.get("threading"):
        until = time.monotonic() + LAST_WAIT
        threads = [each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            os._exit(code)
    return code
