"""forge in processes that start at once, forked from a process that has imported everything.

A command gets its own arguments, folder, environment, standard streams and terminal, and its exit
code or signal is passed on. It has another pid, and it imports nothing: tests of start-up and
imports start real processes.

With the fixture ``forked_looks``, looks at third-party code are forked, too, and not confined.
"""

import atexit
import fcntl
import gc
import importlib
import importlib.metadata
import io
import marshal
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

CLIENT = """#!{python} -IS
import _signal, _socket, array, marshal, posix, sys
terminals = [each for each in range(3) if posix.isatty(each)]
if terminals and posix.getsid(0) == posix.getpid():
    import fcntl, termios
    _signal.signal(_signal.SIGHUP, _signal.SIG_IGN)  # which tells whoever gives a terminal away
    fcntl.ioctl(terminals[0], termios.TIOCNOTTY)
request = marshal.dumps((sys.argv, posix.getcwd(), dict(posix.environ)))
server = _socket.socket(_socket.AF_UNIX)
server.connect({address!r})
streams = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
server.sendmsg([len(request).to_bytes(8, "big")], [streams])
server.sendall(request)
def hand_over(number, frame):
    try:
        server.send(bytes([number]))
    except OSError:
        pass  # it has ended, and its status is on the way
for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM):
    _signal.signal(number, hand_over)
status = int.from_bytes(server.recv(8) or b"\\1\\0", "big")
if status & 127:
    if status & 127 != _signal.SIGKILL:
        _signal.signal(status & 127, _signal.SIG_DFL)
    posix.kill(posix.getpid(), status & 127)
posix._exit(status >> 8)
"""
"""The program that tests start: it passes its streams, terminal and signals to the fork, and waits."""
MAIN = "import sys; from forge_cli.cli.app import main; sys.exit(main())"
LATE = (
    "anthropic",
    "anyio._backends._asyncio",
    "docstring_parser",
    "genai_prices.data",
    "httpx2",
    "jsonschema",
    "mcp.client.streamable_http",
    "mcp.server",
    "mcp.server.streamable_http_manager",
    "prompt_toolkit",
    "pydantic.dataclasses",
    "starlette.responses",
    "typer._adapters",
    "typer._click.decorators",
    "uvicorn",
)
"""Modules that commands import while they run."""
FORKED_LOOKS = "FORKED_LOOKS"
"""The variable with the program that looks are forked from; without it they are confined."""
Request = tuple[list[str], str, dict[bytes, bytes]]
SITE = [place for place in sys.path if place.endswith("site-packages")]
"""The folders of installed packages, which do not change while tests run."""


class Warm:
    """``forge``, ``python -m forge_cli`` and ``python -c`` as programs that start at once."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.forge, self.python = place / "bin" / "forge", place / "python"

    def wait(self) -> None:
        """Wait until everything is imported."""
        subprocess.run([self.python, "-c", ""], check=True, stdin=subprocess.DEVNULL, timeout=120)


@contextmanager
def started(*modules: str) -> Iterator[Warm]:
    """Start the server that forks the processes; it ends by itself if the tests are killed."""
    warm = Warm(Path(tempfile.mkdtemp(prefix="warm-")))
    address = str(warm.place / "socket")
    for path in (warm.forge, warm.python):
        path.parent.mkdir(exist_ok=True)
        path.write_text(CLIENT.format(python=sys.executable, address=address))
        path.chmod(0o755)
    command = [sys.executable, __file__, address, *modules]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == b"listening\n"
        yield warm
        process.stdin.close()
    shutil.rmtree(warm.place)


def forked_look(python: str) -> dict[str, Any]:
    """Return replacements for names of ``loading_child``: looks are forked, and not confined."""
    looking = importlib.import_module("forge_cli.inspection.loading_child")
    command = importlib.import_module("forge_cli.sandbox.processes.command")
    confined = looking.confined

    def unconfined(*args: Any) -> Any:
        confined(*args)  # it also raises for zones that cannot be made
        return command.UNCONFINED

    return {"PYTHON": (python,), "confined": unconfined}


class KnownDistribution(importlib.metadata.PathDistribution):
    """An installed distribution whose files are read only once.

    Each test has a new home without a cache, so forge would read them in every test.
    """

    @cached_property
    def metadata(self) -> Any:  # type: ignore[override]
        return super().metadata

    @cached_property
    def entry_points(self) -> Any:  # type: ignore[override]
        return super().entry_points


def know_distributions() -> None:
    """Read the installed distributions once, instead of at each scan for plugins."""
    search = importlib.metadata.distributions

    @cache
    def known(place: str) -> list[KnownDistribution]:
        return [KnownDistribution(found._path) for found in search(path=[place])]  # type: ignore[attr-defined]

    def distributions(**asked: Any) -> Iterator[importlib.metadata.Distribution]:
        if asked:
            yield from search(**asked)
            return
        for place in sys.path:
            yield from known(place) if place in SITE else search(path=[place])

    importlib.metadata.distributions = distributions  # type: ignore[assignment]


def serve(address: str, *modules: str) -> None:
    """Fork a process for each request, until the tests have ended."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(1, b"listening\n")
        _import_everything(address, *modules)
        _answer(listener)


def _import_everything(address: str, *modules: str) -> None:
    for module in (*LATE, *modules):
        importlib.import_module(module)
    package = importlib.import_module("forge_cli")
    for found in pkgutil.walk_packages(package.__path__, "forge_cli."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    _complete(importlib.import_module("pydantic").BaseModel)
    know_distributions()
    importlib.import_module("forge_cli.engine.plugins.scan").installed(
        Path(address).parent / "scanned" / "cache"
    )
    gc.freeze()


def _answer(listener: socket.socket) -> None:
    waking, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    waiting: dict[int, socket.socket] = {}
    while 0 not in (ready := select.select([0, listener, waking, *waiting.values()], [], [])[0]):
        if listener in ready:
            connection, _ = listener.accept()
            try:
                request, streams = _receive(connection)
            except (EOFError, OSError):  # killed before it could ask
                connection.close()
                continue
            child = os.fork()
            if child == 0:
                for each in (listener, connection, *waiting.values()):
                    each.close()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(waking)
                os.close(wake)
                become(*request, streams)
            waiting[child] = connection
            for stream in streams:
                os.close(stream)
        for child in [child for child, connection in waiting.items() if connection in ready]:
            _pass_on(child, waiting)
        if waking in ready:
            os.read(waking, 4096)
            _tell_ends(waiting)


def _pass_on(child: int, waiting: dict[int, socket.socket]) -> None:
    """Pass a client's signal on to its process, or kill the process if the client has ended."""
    number = waiting[child].recv(1)
    os.kill(child, number[0] if number else signal.SIGKILL)
    if not number:
        waiting.pop(child).close()


def _tell_ends(waiting: dict[int, socket.socket]) -> None:
    """Send the status of ended processes to their clients."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            child, status = ended
            if child in waiting:
                with (
                    waiting.pop(child) as connection,
                    suppress(BrokenPipeError, ConnectionResetError),
                ):  # whoever wanted to know has gone
                    connection.sendall(status.to_bytes(8, "big"))
                    # A signal that was not read would make the kernel reset the connection at its
                    # close, and the client would lose the status.
                    connection.setblocking(False)
                    with suppress(BlockingIOError):
                        while connection.recv(64):
                            pass


def _complete(model: Any) -> None:
    """Build the validators that pydantic would build on first use of a model."""
    for each in model.__subclasses__():
        if each.__module__.startswith("forge_cli."):
            each.model_rebuild(raise_errors=False)
        _complete(each)


def _receive(connection: socket.socket) -> tuple[Request, list[int]]:
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as file:
        return marshal.loads(file.read(int.from_bytes(size, "big"))), streams


def become(argv: list[str], folder: str, env: Mapping[bytes, bytes], streams: list[int]) -> None:
    """Run a command as if this process had just been started for it, and exit."""
    os.setsid()
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(env)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for terminal in filter(os.isatty, range(3)):
        with suppress(OSError):  # of somebody else
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
            break
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__ = _opened()  # type: ignore[misc]
    own = [
        os.path.abspath(place)
        for place in os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if place
    ]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    match argv:
        case [python, "-c", code, *args] if python.endswith("/python"):
            first, sys.argv = "", ["-c", *args]
        case [python, "-m", "forge_cli", *args] if python.endswith("/python"):
            first, sys.argv, code = folder, ["forge_cli", *args], MAIN
        case _:
            first, sys.argv, code = os.path.dirname(sys.executable), argv, MAIN
    sys.path[:1] = [first, *own]
    importlib.invalidate_caches()
    if python := os.environ.get(FORKED_LOOKS):
        looking = importlib.import_module("forge_cli.inspection.loading_child")
        vars(looking).update(forked_look(python))
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            _leave(left.code or 0)
        raise
    _leave(0)


def _leave(code: int) -> None:
    """Exit without Python's teardown of modules, which would copy all shared memory."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(code & 255)


def _opened() -> tuple[io.TextIOWrapper, ...]:
    def opened(number: int, mode: str, errors: str = "strict") -> io.TextIOWrapper:
        lines = number == 2 or os.isatty(number)
        return io.TextIOWrapper(
            open(number, mode, closefd=False), "utf-8", errors, line_buffering=lines
        )

    return opened(0, "rb"), opened(1, "wb"), opened(2, "wb", "backslashreplace")


if __name__ == "__main__":
    serve(*sys.argv[1:])
