"""The console script: it knows the version and how to end, and loads everything else once it is needed."""

import gc
import os
import signal
import sys
import time

from forge_cli import __version__
from forge_cli.process.launch import Launch
from forge_cli.process.streams import (
    OutputLost,
    erase_live_lines,
    guard_streams,
    open_missing_streams,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STOPS = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
    if hasattr(signal, name)
]
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
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until there are handlers
    launch = Launch(before if mask is None else mask)
    on_stop(lambda number, frame: os._exit(128 + number))
    open_missing_streams()
    guard_streams()
    launch.release_signals()  # an import may take long, and one signal has to end it
    args, debug = take_debug(sys.argv[1:])
    code = attempt(args, launch, debug=debug)
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


def attempt(args: list[str], launch: Launch, *, debug: bool = False) -> int:
    """Carry the arguments out; the outermost frame, where an exception becomes a sentence and an exit code."""
    code = 0
    if debug:
        from forge_cli.cli.failure import say_traceback
        from forge_cli.engine.gate.debugging import listen_to_tracebacks

        listen_to_tracebacks(say_traceback)
    try:
        code = carry_out(args, launch)
        sys.stdout.flush()
    except BaseException as error:
        from forge_cli.cli.failure import explain

        failure = explain(error, debug=debug, report=launch.report)
        code = code or failure
    return code


def take_debug(args: list[str]) -> tuple[list[str], bool]:
    """Split ``--debug`` off, wherever it stands before a ``--``.

    Typer would know it only at the commands that declare it; this one is for those of packages and their loading, too.
    """
    end = args.index("--") if "--" in args else len(args)
    kept = [arg for arg in args[:end] if arg != "--debug"]
    return kept + args[end:], len(kept) < end


def carry_out(args: list[str], launch: Launch) -> int:
    """Find the command that the arguments name, and invoke it."""
    if args[:1] in (["--version"], ["-V"]):
        sys.stdout.write(f"forge {__version__}\n")
        return 0
    os.environ.setdefault(
        "PYDANTIC_DISABLE_PLUGINS", "__all__"
    )  # it would read the metadata of all packages
    if "_FORGE_COMPLETE" in os.environ:
        from forge_cli.cli.completion import answer

        launch.release_signals()
        return answer(args)
    if not args:
        if sys.stdin.isatty() and sys.stderr.isatty():
            from forge_cli.cli.offer import offer_talk

            launch.release_signals()
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

    return dispatch(args, launch)


def leave(code: int) -> int:
    """Flush, and do not wait for threads that would hold the process."""
    try:  # noqa: SIM105
        sys.stdout.flush()
    except OutputLost:
        pass
    sys.stderr.flush()
    if threading := sys.modules.get("threading"):
        until = time.monotonic() + LAST_WAIT
        threads = [
            each
            for each in threading.enumerate()
            if each is not threading.main_thread() and not each.daemon
        ]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            os._exit(code)
    return code
