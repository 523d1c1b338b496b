"""The console script: it knows the version and how to end, and loads everything else once it is needed."""

import os
import sys
from contextlib import suppress

from forge_cli import __version__
from forge_cli.cli.streams import OutputLost, guard_streams, open_missing_streams


def main() -> int:
    """Carry out ``sys.argv`` and return the exit code; the outermost frame, where an exception becomes a sentence."""
    open_missing_streams()
    guard_streams()
    args, debug = take_debug(sys.argv[1:])
    code = 0
    try:
        code = carry_out(args)
        sys.stdout.flush()
    except BaseException as error:
        failure = explain(error, debug=debug)
        code = code or failure
    return leave(code)


def take_debug(args: list[str]) -> tuple[list[str], bool]:
    """Split ``--debug`` off, wherever it stands before a ``--``."""
    end = args.index("--") if "--" in args else len(args)
    kept = [arg for arg in args[:end] if arg != "--debug"]
    return kept + args[end:], len(kept) < end


def carry_out(args: list[str]) -> int:
    if sys.platform not in ("linux", "darwin"):
        say("only Linux and macOS are supported; on Windows, use WSL")
        return 2
    if args[:1] == ["--version"]:
        sys.stdout.write(f"forge {__version__}\n")
        return 0
    end_on_sigterm()
    # pydantic would read the metadata of everything installed, to look for plugins of its own
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from forge_cli.cli.commands import dispatch

    return dispatch(args or ["--help"])


def end_on_sigterm() -> None:
    """Until a command can stop its work in good order, SIGTERM ends it with the exit code that is documented."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, terminate)


def terminate(number: int, frame: object) -> None:
    from forge_cli.core.errors import Terminated

    raise Terminated


def explain(error: BaseException, *, debug: bool) -> int:
    """Tell the user what ended the command and return the exit code for it."""
    import traceback

    from forge_cli.core.errors import ForgeError

    cause = error
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, SystemExit) and isinstance(cause.code, int | None):
        return cause.code or 0
    if isinstance(cause, KeyboardInterrupt):
        return 130 if type(cause) is KeyboardInterrupt else 143
    if isinstance(cause, OutputLost):
        if not cause.reader_left:
            say(str(cause))
        return 1
    if debug:
        traceback.print_exception(error)
    more = "" if debug else "; --debug shows the traceback"
    if isinstance(cause, ForgeError):
        say(str(cause))
        return cause.exit_code
    if isinstance(cause, FileNotFoundError) and not has_working_directory():
        say("the working directory is gone\n  cd to one that is there")
    elif isinstance(cause, OSError):
        place = f": {os.fsdecode(cause.filename)}" if isinstance(cause.filename, (str, bytes)) else ""
        say(f"{cause.strerror or cause}{place}{more}")
    else:
        say(f"internal error: {' '.join(traceback.format_exception_only(cause)[-1].split())}{more}")
    return 1


def has_working_directory() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def say(sentence: str) -> None:
    """Write one error to stderr, without secrets and control characters."""
    from forge_cli.core.text import visible
    from forge_cli.sandbox.secrets import Redactor

    sentence = Redactor(os.environ).redact_text(sentence)
    plain = visible(sentence, keep="\n\t")
    sys.stderr.write(f"forge: {plain}\n")


def leave(code: int) -> int:
    """Flush, and do not wait for threads that would hold the process."""
    with suppress(OutputLost):
        sys.stdout.flush()
    sys.stderr.flush()
    threading = sys.modules.get("threading")
    if threading and any(not each.daemon for each in threading.enumerate() if each is not threading.main_thread()):
        os._exit(code)
    return code
