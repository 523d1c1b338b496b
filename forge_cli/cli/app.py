"""The console script: it knows the version and how to end, and loads everything else once it is needed."""

import gc
import os
import sys

from forge_cli import __version__


def main() -> int:
    """Carry out ``sys.argv`` and return the exit code; the outermost frame, where an exception becomes a sentence."""
    open_missing_streams()
    speak_utf8()
    args, debug = take_debug(sys.argv[1:])
    code = 0
    try:
        code = carry_out(args)
        sys.stdout.flush()
    except BaseException as error:
        failure = explain(error, debug=debug)
        code = code or failure
    return leave(code)


def open_missing_streams() -> None:
    """Give a closed standard stream to /dev/null, or the next file that is opened would get its descriptor."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def speak_utf8() -> None:
    """Write UTF-8 whatever the locale says, and escape what cannot be written, such as a lone surrogate."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(encoding="utf-8", errors="backslashreplace")


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
    # by default the garbage of imports is looked for every 700 objects, a twentieth of the time that a start takes
    gc.set_threshold(200_000)
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
    if isinstance(cause, BrokenPipeError) and reader_is_gone():
        return 1
    if debug:
        traceback.print_exception(error)
    more = "" if debug else "; --debug shows the traceback"
    if isinstance(cause, ForgeError):
        say(str(cause))
        return cause.exit_code
    if isinstance(cause, OSError):
        place = f": {os.fsdecode(cause.filename)}" if isinstance(cause.filename, (str, bytes)) else ""
        say(f"{cause.strerror or cause}{place}{more}")
    else:
        say(f"internal error: {' '.join(traceback.format_exception_only(cause)[-1].split())}{more}")
    return 1


def reader_is_gone() -> bool:
    """Whether nobody reads our output any more, so that a broken pipe is ours and no news."""
    import select

    poll = select.poll()
    for stream in (sys.stdout, sys.stderr):
        poll.register(stream, 0)
    return any(state & (select.POLLERR | select.POLLHUP) for _, state in poll.poll(0))


def say(sentence: str) -> None:
    """Write one error to stderr, without secrets and control characters; a stderr that is gone cannot be told."""
    from forge_cli.sandbox.secrets import Redactor

    sentence = Redactor(os.environ).redact_text(sentence)
    plain = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in sentence)
    try:
        sys.stderr.write(f"forge: {plain}\n")
    except OSError:
        silence(sys.stderr.fileno())


def leave(code: int) -> int:
    """Flush, and do not wait for threads that would hold the process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            silence(stream.fileno())
    threading = sys.modules.get("threading")
    if threading and any(not each.daemon for each in threading.enumerate() if each is not threading.main_thread()):
        os._exit(code)
    return code


def silence(descriptor: int) -> None:
    """Let the interpreter's own flush at exit succeed: what is still buffered has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
