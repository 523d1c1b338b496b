"""forge in processes that start at once: each is forked from a process that has imported everything.

A command gets its own arguments, folder, environment and standard streams, and its exit code or signal comes back, as
if it had been started by itself, on a terminal, too. It has another pid, and what start-up costs or imports cannot be
seen: tests of these start real processes.

Looks at third-party code are forked in the same way, and not confined, unless the fixture ``confined_looks`` is used.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
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
for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM):
    _signal.signal(number, lambda number, frame: server.send(bytes([number])))
status = int.from_bytes(server.recv(8) or b"\\1\\0", "big")
if status & 127:
    if status & 127 != _signal.SIGKILL:
        _signal.signal(status & 127, _signal.SIG_DFL)
    posix.kill(posix.getpid(), status & 127)
posix._exit(status >> 8)
"""
"""What stands in for a command: it hands over its streams, its terminal and signals, waits, and imports little."""
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
"""What a command imports of others once it is at work."""
CONFINED_LOOKS = "CONFINED_LOOKS"
"""The variable that has looks at third-party code be what they are for users: new processes, and confined."""
Request = tuple[list[str], str, dict[bytes, bytes]]
SITE = [place for place in sys.path if place.endswith("site-packages")]
"""Packages of the tests themselves, which stay as they are meanwhile."""


class Warm:
    """``forge``, ``python -m forge_cli`` and ``python -c`` as programs that start at once."""

    def __init__(self, *modules: str) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="warm-"))
        address = str(self.place / "socket")
        self.forge, self.python = (self._program(name, address) for name in ("bin/forge", "python"))
        command = [sys.executable, __file__, address, *modules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ready\n"

    def _program(self, name: str, address: str) -> Path:
        path = self.place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(CLIENT.format(python=sys.executable, address=address))
        path.chmod(0o755)
        return path

    def close(self) -> None:
        """End the process from which the others come; it ends by itself if the tests are killed."""
        with self._process:
            assert self._process.stdin
            self._process.stdin.close()
        shutil.rmtree(self.place)


class LookingChildren:
    """Children that look at third-party code, forked instead of started."""

    def __init__(self, children: Any, python: str) -> None:
        self._children, self._python = children, python

    def start(self, argv: list[str], *, wrap: object, limits: object, **options: Any) -> Any:
        _, isolated, *rest = argv
        assert isolated == "-I"
        return self._children.start([self._python, *rest], **options)


def warm_looks(find: Callable[[], str | Path]) -> Callable[[Any], Any]:
    """What stands in for the making of a ``LoadingChild``; ``find`` gives the program that starts at once."""
    start = importlib.import_module("forge_cli.inspection.loading_child").LoadingChild.__init__

    def started(child: Any, children: Any, *given: Any, **options: Any) -> None:
        confined = CONFINED_LOOKS in os.environ
        start(child, children if confined else LookingChildren(children, str(find())), *given, **options)

    return started


class KnownDistribution(importlib.metadata.PathDistribution):
    """An installed distribution whose files are read once, and not by every test: each has a home without a cache."""

    @cached_property
    def metadata(self) -> Any:  # type: ignore[override]
        return super().metadata

    @cached_property
    def entry_points(self) -> Any:  # type: ignore[override]
        return super().entry_points


def know_distributions() -> None:
    """Have a scan for plugins read nothing again of what the tests themselves are run with."""
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
    """Fork a process for each request, until nobody can ask any more; returns early in such a process, once done."""
    for module in (*LATE, *modules):
        importlib.import_module(module)
    package = importlib.import_module("forge_cli")
    for found in pkgutil.walk_packages(package.__path__, "forge_cli."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    child = importlib.import_module("forge_cli.inspection.loading_child").LoadingChild
    child.__init__ = warm_looks(lambda: Path(address).with_name("python"))
    _complete(importlib.import_module("pydantic").BaseModel)
    know_distributions()
    importlib.import_module("forge_cli.engine.plugins.scan").installed(Path(address).parent / "scanned" / "cache")
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(1, b"ready\n")
        while 0 not in (ready := select.select([0, listener], [], [])[0]):
            if ready:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    listener.close()
                    carry_out(connection)
                    return
                connection.close()
            _reap()


def _complete(model: Any) -> None:
    """Build what pydantic leaves to the first use of a model of forge."""
    for each in model.__subclasses__():
        if each.__module__.startswith("forge_cli."):
            each.model_rebuild(raise_errors=False)
        _complete(each)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def carry_out(connection: socket.socket) -> None:
    """Let a child do what is asked and tell how it ended; a client that leaves takes it along."""
    request, streams = _receive(connection)
    child = os.fork()
    if child == 0:
        connection.close()
        become(*request, streams)
        return
    for stream in streams:
        os.close(stream)
    if hasattr(os, "pidfd_open"):
        ended = os.pidfd_open(child)
        while ended not in select.select([ended, connection], [], [])[0]:
            os.kill(child, (connection.recv(1) or bytes([signal.SIGKILL]))[0])
    _, status = os.waitpid(child, 0)
    with suppress(BrokenPipeError):  # whoever wanted to know has gone
        connection.sendall(status.to_bytes(8, "big"))
    os._exit(0)


def _receive(connection: socket.socket) -> tuple[Request, list[int]]:
    size, streams, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as file:
        return marshal.loads(file.read(int.from_bytes(size, "big"))), streams


def become(argv: list[str], folder: str, env: Mapping[bytes, bytes], streams: list[int]) -> None:
    """Be a process that was started with these; what it ends with is what the command ends with."""
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
    own = [os.path.abspath(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
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
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            _leave(left.code or 0)
        raise


def _leave(code: int) -> None:
    """End as Python does, but for taking apart all that was imported, which would copy it first."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(BrokenPipeError, ValueError):
            stream.flush()
    os._exit(code & 255)


def _opened() -> tuple[io.TextIOWrapper, ...]:
    def opened(number: int, mode: str, errors: str = "strict") -> io.TextIOWrapper:
        lines = number == 2 or os.isatty(number)
        return io.TextIOWrapper(open(number, mode, closefd=False), "utf-8", errors, line_buffering=lines)

    return opened(0, "rb"), opened(1, "wb"), opened(2, "wb", "backslashreplace")


if __name__ == "__main__":
    serve(*sys.argv[1:])
