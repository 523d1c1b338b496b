"""Looking at workers and plugins: in this process where all of it is forge's own, else in a confined child."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import anyio
import msgspec

from forge_cli.core.errors import ExitCode, ForgeError, Mark, ToolError
from forge_cli.core.text import counted, cut, visible
from forge_cli.core.thirdparty import deny_third_party, needs_third_party, watching
from forge_cli.core.wire import JsonObject
from forge_cli.files.settings import import_timeout
from forge_cli.inspection.child import result_type
from forge_cli.inspection.child_mounts import child_environment, confined, make_zones, unseen_zones
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.processes.child import Child
from forge_cli.sandbox.processes.limits import ProcessLimits
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.processes.streams import Input

T = TypeVar("T")

LIMITS = ProcessLimits(processes=64, memory=2**31, file_size=2**28)
LONGEST_REPLY, LONGEST_PRINT, LONGEST_SENTENCE = 2**26, 2**16, 1000
MOST_STEPS = 20
"""How often something third-party can begin and have its own time, where tools are called."""
_START = """import sys; sys.path[:] = sys.argv[1:]
from forge_cli.inspection.child import main; main()"""


class ThirdPartyError(ForgeError):
    """Third-party code kept the child that looked at it from answering."""

    exit_code = ExitCode.INVALID


async def inspect(
    function: Callable[..., Awaitable[T]],
    *args: Any,
    worker: str | Path | None = None,
    folder: Path | None = None,
    calls_tools: bool = False,
) -> T:
    """The result of one function, found without third-party code in this process."""
    async with Inspector(worker, folder, calls_tools=calls_tools) as inspector:
        return await inspector(function, *args)


class Inspector:
    """Calls functions whose arguments and results can be written as JSON.

    A function that turns out to need third-party code is called in a child instead, which sees what loading a worker
    and its tools takes and can change nothing; zones of toolsets that others wrote are made before. The child is kept,
    with what it has loaded, until it fails.
    Where it ``calls_tools``, each of them has as long as loading has.
    """

    def __init__(
        self, worker: str | Path | None = None, folder: Path | None = None, *, calls_tools: bool = False
    ) -> None:
        self._worker, self._folder, self._calls_tools = worker, folder, calls_tools
        self._stack = AsyncExitStack()
        self._child: _Conversation | None = None

    async def __aenter__(self) -> Self:
        self._children = await self._stack.enter_async_context(ChildProcesses())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await self.close()
        return await self._stack.__aexit__(kind, error, trace)

    async def __call__(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        if self._child is None:
            try:
                with watching(deny_third_party):
                    return await function(*args)
            except BaseException as error:
                if not needs_third_party(error):
                    raise
        return await self.in_child(function, *args)

    async def in_child(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        try:
            if self._child is None:
                self._child = self._start()
                if self._worker and (unseen := await self._unseen_zones(self._child)):
                    await self.close()
                    self._child = self._start(make_zones(unseen))
            return await self._child.ask(function, args)
        except ThirdPartyError:
            await self.close()
            raise

    async def _unseen_zones(self, child: _Conversation) -> list[tuple[str, str, str]]:
        try:
            return await child.ask(unseen_zones, (str(self._worker), str(self._folder or Path.cwd())))
        except ThirdPartyError:
            raise
        except ForgeError:  # reported where the worker is opened
            return []

    async def close(self) -> None:
        """End the child, if there is one; the next request that needs one has a new one."""
        if self._child is not None:
            child, self._child = self._child, None
            await child.end()

    def _start(self, zones: Sequence[Path] = ()) -> _Conversation:
        argv = [sys.executable, "-I", "-c", _START, *(os.path.abspath(entry) for entry in sys.path)]
        wrap = confined(self._worker, self._folder, zones)
        try:
            child = self._children.start(
                argv,
                cwd=Path.cwd(),
                env=child_environment(),
                wrap=wrap,
                limit=LONGEST_REPLY,
                takes_input=True,
                limits=LIMITS,
            )
        except ToolError as error:
            raise ThirdPartyError(f"third-party code cannot be loaded to look at it: {error}") from error
        by = wrap.mechanism if isinstance(wrap, Confined) else None
        confined_by = (by.name, by.weakness, by.own_network, by.shows_names) if by else None
        return _Conversation(child, confined_by, self._calls_tools)


class _Conversation:
    """Requests to one child, and its replies."""

    def __init__(self, child: Child, confined_by: tuple[Any, ...] | None, calls_tools: bool) -> None:
        self._child, self._confined_by = child, confined_by
        self._stdin = cast(Input, child.stdin)
        self._steps = MOST_STEPS if calls_tools else 1
        self._unread = ""
        self._at: str | None = None

    async def ask(self, function: Callable[..., Awaitable[T]], args: Iterable[Any]) -> T:
        name = f"{function.__module__}:{function.__qualname__}"
        request = {"function": name, "args": list(args), "confined_by": self._confined_by}
        seconds = import_timeout()
        reply: JsonObject = {"failed": f"it did not answer within {counted(seconds, 'second')}"}
        with anyio.move_on_after(seconds) as limit:
            reply = await self._exchange(json.dumps(request).encode() + b"\n", limit, seconds)
        self._forward_errors()
        return self._value(reply, function)

    async def end(self) -> None:
        await self._child.stop(politely=False)
        self._forward_errors()

    async def _exchange(self, request: bytes, limit: anyio.CancelScope, seconds: float) -> JsonObject:
        try:
            await self._stdin.write(request, timeout=None)
        except ToolError:
            return await self._ended()
        while True:
            line, rest, self._unread = self._unread.partition("\n")
            if not rest:
                self._unread = line
                if not await self._read():
                    return await self._ended()
                continue
            message = _read_message(line)
            if "at" not in message:
                return message
            self._at = cut(str(message["at"]), LONGEST_SENTENCE)
            self._steps -= 1
            if self._steps > 0:
                limit.deadline = anyio.current_time() + seconds

    async def _read(self) -> bool:
        await self._child.stdout.wait_for_output()
        piece = self._child.stdout.take()
        self._unread += piece
        return bool(piece) and len(self._unread) < LONGEST_REPLY

    async def _ended(self) -> JsonObject:
        await self._child.stop(politely=False)
        done = self._child.finished()
        if done.exceeded:
            return {"failed": done.exceeded.partition(" (")[0]}
        how = f"signal {done.signal}" if done.signal else f"exit code {done.exit_code}"
        return {"failed": f"it ended the process that loads it ({how})"}

    def _value(self, reply: JsonObject, function: Callable[..., Awaitable[T]]) -> T:
        try:
            if "value" in reply:
                value: T = msgspec.convert(reply["value"], result_type(function), dec_hook=_read_path)
                return value
            error = _error_of(reply) if "error" in reply else self._blame(str(reply["failed"]))
        except (KeyError, TypeError, ValueError, RecursionError):
            error = self._blame("its answer makes no sense")
        if trace := reply.get("traceback"):
            error.add_note(visible(str(trace), keep="\n"))
        raise error

    def _blame(self, problem: str) -> ForgeError:
        who = self._at or "the process that loads third-party code"
        return ThirdPartyError(f"{who}: {cut(problem, LONGEST_SENTENCE)}")

    def _forward_errors(self) -> None:
        """Pass on what was printed; a stranger's text does not get to steer the terminal."""
        sys.stderr.write(visible(cut(self._child.stderr.take(), LONGEST_PRINT), keep="\n\t"))


def _read_path(kind: Any, text: Any) -> Any:
    return kind(text)


def _read_message(line: str) -> JsonObject:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    return message if isinstance(message, dict) else {"failed": "its answer makes no sense"}


def _error_of(reply: JsonObject) -> ForgeError:
    told = reply["error"]
    where = Mark(*told["where"]) if told["where"] else None
    error = ForgeError(told["message"], where=where, hint=told["hint"])
    error.exit_code = ExitCode(told["exit_code"])
    return error
