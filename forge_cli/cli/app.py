"""The console script: start, signals, errors and the end of every command."""

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
"""Signals that end a program; some systems lack a few of them."""
THREAD_TIMEOUT = 0.5
"""Seconds that threads have to end after all output is written."""


def main(mask: set[int | signal.Signals] | None = None) -> int:
    """Run ``sys.argv`` and return the exit code.

    ``mask`` is the signal mask to restore if the caller has already blocked signals.
    """
    if sys.platform not in ("linux", "darwin"):
        sys.stderr.write("forge: only Linux and macOS are supported; on Windows, use WSL\n")
        return 2
    # by default, garbage is collected every 700 objects, which takes a twentieth of the start
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
    """Handle the signals that end a program, unless they are ignored, as by nohup.

    Before a command is loaded there is nothing to clean up, and an exception that is raised during
    an import comes out as a different one. So the first handler exits at once.
    """
    for number in STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            try:
                signal.signal(number, handler)
            except ValueError:  # only the main thread may
                return


def attempt(args: list[str], launch: Launch, *, debug: bool = False) -> int:
    """Run a command line; turn an exception into a message and an exit code."""
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
        # if only the flush failed, a code of the work is more precise
        code = code or failure
    return code


def take_debug(args: list[str]) -> tuple[list[str], bool]:
    """Return the arguments without ``--debug``, and whether it was there before a ``--``.

    Typer would accept it only where a command declares it. It is also needed for commands of
    plugins, and while they are loaded.
    """
    end = args.index("--") if "--" in args else len(args)
    kept = [arg for arg in args[:end] if arg != "--debug"]
    return kept + args[end:], len(kept) < end


def carry_out(args: list[str], launch: Launch) -> int:
    """Find the command that the arguments name, and run it."""
    if args[:1] in (["--version"], ["-V"]):  # before typer is imported
        sys.stdout.write(f"forge {__version__}\n")
        return 0
    # pydantic would read the metadata of all packages to find plugins
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # each branch imports its own modules only, because imports take most of a short command's time
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
    """Flush the output and end, without waiting for threads that would block the process."""
    try:  # noqa: SIM105
        sys.stdout.flush()
    except OutputLost:
        pass
    sys.stderr.flush()
    if threading := sys.modules.get("threading"):
        until = time.monotonic() + THREAD_TIMEOUT
        threads = [
            each
            for each in threading.enumerate()
            if each is not threading.main_thread() and not each.daemon
        ]
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        # Python would wait for these threads at its end, however long they take
        if any(thread.is_alive() for thread in threads):
            os._exit(code)
    return code
