"""What the commands share: options, the one way into the event loop, and a worker opened without a model."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer
from typer.core import TyperCommand

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bus import EventBus
from forge_cli.core.config import MarkedDict, parse_config
from forge_cli.core.errors import ExitCode, Mark, Terminated, UsageError
from forge_cli.core.events import StatusEvent
from forge_cli.core.interrupt import TERMINATED, InterruptSignal
from forge_cli.core.schema import JsonObject
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.assemble import Assembly, assemble
from forge_cli.files.worker import Worker, WorkerConfig

T = TypeVar("T")

DirectoryOption = Annotated[
    Path | None, typer.Option("-C", "--cd", metavar="DIR", help="Work in DIR; WORKER is still looked up from here.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonInputOption = Annotated[
    str | None, typer.Option("--json-input", metavar="JSON", help="The whole input as a JSON object.")
]


class PlainCommand(TyperCommand):
    """A command whose usage reads ``WORKER [TASK|-]``; typer would write ``{WORKER}``."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [piece[1:].replace("}", "", 1) if piece.startswith("{") else piece for piece in pieces]


class App(typer.Typer):
    """Commands of the house unless another class is named."""

    def command(self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any) -> Any:
        return super().command(name, cls=cls or PlainCommand, **settings)


def new_app(**settings: object) -> typer.Typer:
    """A Typer in the house style: plain help, our own errors."""
    return App(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        **settings,  # type: ignore[arg-type]
    )


def in_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Run an async function to its end; the only place where the event loop is started."""
    return anyio.run(function, *args)


@contextmanager
def interruptible(interrupt: Callable[[str], object], ready: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Ctrl+C and SIGTERM call ``interrupt`` with the reason; a second within a second leaves at once.

    Until it is ``ready`` there is nothing to stop in good order, and the first one leaves.
    Real handlers, not those of the event loop: a tool that blocks the loop must not block the way out as well.
    """
    loop, last = asyncio.get_running_loop(), float("-inf")

    def handle(number: int, frame: object) -> None:
        nonlocal last
        before, last = last, time.monotonic()
        terminated = number == signal.SIGTERM
        if last - before < 1:
            os._exit(ExitCode.TERMINATED if terminated else ExitCode.INTERRUPTED)
        if not ready():
            raise Terminated if terminated else KeyboardInterrupt
        loop.call_soon_threadsafe(interrupt, TERMINATED if terminated else "interrupted")

    handlers = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _woken(loop):
            yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _woken(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let signals wake the loop: one that comes just before it goes to sleep would wait for the next event there."""
    ours, pythons = socket.socketpair()
    with ours, pythons:
        ours.setblocking(False)
        pythons.setblocking(False)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)


def is_interactive() -> bool:
    """Can a person be asked? Standard output may be piped; input and error must be terminals, and CI never is one."""
    return not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


def work_folder(directory: Path | None) -> Path:
    """The working directory: ``-C``, or where the caller stands."""
    folder = Path.cwd() if directory is None else directory
    if not folder.is_dir():
        raise UsageError(f"-C {folder}: there is no such folder")
    return folder.resolve()


def json_object(text: str | None) -> JsonObject:
    """What ``--json-input`` says; nothing where it is not given."""
    try:
        given = {} if text is None else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--json-input is no JSON: {error}", hint="quote it as in --json-input '{...}'") from None
    if not isinstance(given, dict):
        raise UsageError("--json-input must be a JSON object", hint="""as in --json-input '{"path": "/a"}'""")
    return given


def bare_worker(toolsets: dict[str, object], sandbox: dict[str, object] | None = None) -> Worker:
    """A worker for commands that need none: these toolsets, the default zone, nothing said about approval."""
    data: dict[str, object] = {"name": "forge", "toolsets": toolsets}
    if sandbox is not None:
        data["sandbox"] = sandbox
    mark = Mark("-")
    marked = MarkedDict(data.items(), mark=mark, keys=dict.fromkeys(data, mark), values=dict.fromkeys(data, mark))
    return Worker(parse_config(WorkerConfig, marked), Path.cwd() / "worker.yaml", "")


@asynccontextmanager
async def opened(
    worker: Worker,
    *,
    workspace: Path,
    host: PluginHost | None = None,
    bus: EventBus | None = None,
    mode: ApprovalMode = ApprovalMode.INTERACTIVE,
    interrupt: InterruptSignal | None = None,
    within: Assembly | None = None,
    make_zones: bool = True,
) -> AsyncIterator[Assembly]:
    """A worker's tools and its gate, without a model; without ``make_zones`` to look at only.

    ``within`` is a worker that calls this one.
    """
    bus = bus or EventBus()
    async with AsyncExitStack() as stack:
        yield await assemble(
            worker,
            workspace=workspace,
            host=host or PluginHost(),
            controller=ApprovalController(mode, bus=bus),
            interrupt=interrupt or InterruptSignal(),
            notify=lambda level, message: bus.emit(StatusEvent(level, message)),
            stack=stack,
            parent=within,
            make_zones=make_zones,
        )


class Mode(StrEnum):
    """Choices of ``--approval-mode``."""

    interactive = "interactive"
    approve_all = "approve_all"
    auto_deny = "auto_deny"


def chosen_mode(mode: Mode | None, yes: bool) -> ApprovalMode | None:
    """``-y`` is ``--approval-mode approve_all``; saying two different things is refused."""
    if yes and mode not in (None, Mode.approve_all):
        raise UsageError(f"-y and --approval-mode {mode.value} contradict each other; keep one")
    if yes:
        return ApprovalMode.APPROVE_ALL
    return ApprovalMode(mode.value) if mode else None
