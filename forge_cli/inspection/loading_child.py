"""The parent's side of the child that loads third-party code: start, requests and errors."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import anyio
import msgspec

from forge_cli.core.errors import ExitCode, ForgeError, Mark, ToolError
from forge_cli.core.text import counted, cut, visible
from forge_cli.core.thirdparty import ThirdPartyError
from forge_cli.core.wire import JsonObject
from forge_cli.files.settings_files import import_timeout
from forge_cli.inspection.child import result_type
from forge_cli.inspection.child_mounts import child_environment, confined, make_zones, unseen_zones
from forge_cli.sandbox.isolation.isolation import Confined
from forge_cli.sandbox.processes.limits import ProcessLimits
from forge_cli.sandbox.processes.process import ChildProcesses
from forge_cli.sandbox.processes.streams import Input

T = TypeVar("T")

LIMITS = ProcessLimits(processes=64, memory=2**31, file_size=2**28)
MAX_REPLY = 2**26
MAX_PRINTED = 2**16
MAX_MESSAGE = 1000
MAX_STEPS = 20
"""How many third-party steps may restart the timeout while tools are called."""
PYTHON = (sys.executable, "-I")
_START = """import sys; sys.path[:] = sys.argv[1:]
from forge_cli.inspection.child import main; main()"""


class LoadingChild:
    """A child process that loads third-party code, confined to what the worker needs.

    With ``calls_tools``, each step of third-party code has the whole import timeout.
    """

    def __init__(
        self,
        children: ChildProcesses,
        worker: str | Path | None,
        folder: Path | None,
        zones: Sequence[Path] = (),
        *,
        calls_tools: bool,
    ) -> None:
        # -I ignores PYTHONPATH and the working directory, so sys.path is passed as arguments
        argv = [*PYTHON, "-c", _START, *map(os.path.abspath, sys.path)]
        wrap = confined(worker, folder, zones)
        try:
            self._child = children.start(
                argv,
                cwd=Path.cwd(),
                env=child_environment(),
                wrap=wrap,
                limit=MAX_REPLY,
                takes_input=True,
                limits=LIMITS,
            )
        except ToolError as error:
            raise ThirdPartyError(f"third-party code cannot be inspected: {error}") from error
        # a child cannot find out itself that it is confined, so each request says it
        self._confined_by: tuple[str, str | None, bool, bool] | None = None
        if isinstance(wrap, Confined):
            by = wrap.mechanism
            self._confined_by = (by.name, by.weakness, by.own_network, by.shows_names)
        self._stdin = cast(Input, self._child.stdin)  # not None, because of takes_input
        self._steps = MAX_STEPS if calls_tools else 1
        self._unread = ""
        self._at: str | None = None

    @classmethod
    async def started(
        cls,
        children: ChildProcesses,
        worker: str | Path | None,
        folder: Path | None,
        *,
        calls_tools: bool,
    ) -> Self:
        """Start a child that sees all zones of a worker.

        Zones of third-party toolsets are known only in a child; if some are missing, they are made
        and a second child is started.
        """
        child = cls(children, worker, folder, calls_tools=calls_tools)
        if worker and (unseen := await child._unseen_zones(worker, folder)):
            await child.end()
            child = cls(children, worker, folder, make_zones(unseen), calls_tools=calls_tools)
        return child

    async def _unseen_zones(
        self, worker: str | Path, folder: Path | None
    ) -> list[tuple[str, str, str]]:
        try:
            return await self.ask(unseen_zones, (str(worker), str(folder or Path.cwd())))
        except ThirdPartyError:
            await self.end()
            raise
        except ForgeError:  # reported where the worker is opened
            return []

    async def ask(self, function: Callable[..., Awaitable[T]], args: Iterable[Any]) -> T:
        """Call a function in the child and return its result; raise the error that it raised."""
        name = f"{function.__module__}:{function.__qualname__}"
        request = {"function": name, "args": list(args), "confined_by": self._confined_by}
        seconds = import_timeout()
        reply: JsonObject = {"failed": f"no answer within {counted(seconds, 'second')}"}
        with anyio.move_on_after(seconds) as limit:
            reply = await self._exchange(json.dumps(request).encode() + b"\n", limit, seconds)
        self._forward_errors()
        return self._value(reply, function)

    async def end(self) -> None:
        """Stop the child and print the errors that it wrote."""
        await self._child.stop(politely=False)
        self._forward_errors()

    async def _exchange(
        self, request: bytes, limit: anyio.CancelScope, seconds: float
    ) -> JsonObject:
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
            self._at = cut(str(message["at"]), MAX_MESSAGE)
            # each step may take the whole time, but code must not extend it without end
            self._steps -= 1
            if self._steps > 0:
                limit.deadline = anyio.current_time() + seconds

    async def _read(self) -> bool:
        # a reply without an end would fill the memory of this process
        await self._child.stdout.wait_for_output()
        piece = self._child.stdout.take()
        self._unread += piece
        return bool(piece) and len(self._unread) < MAX_REPLY

    async def _ended(self) -> JsonObject:
        await self._child.stop(politely=False)
        done = self._child.finished()
        if done.exceeded:
            return {"failed": done.exceeded.partition(" (")[0]}
        if done.signal:
            how = f"signal {done.signal}"
        else:
            how = f"exit code {done.exit_code}"
        return {"failed": f"the loading process ended ({how})"}

    def _value(self, reply: JsonObject, function: Callable[..., Awaitable[T]]) -> T:
        try:
            if "value" in reply:
                value: T = msgspec.convert(
                    reply["value"], result_type(function), dec_hook=_read_path
                )
                return value
            if "error" in reply:
                error = _error_of(reply)
            else:
                error = self._blame(str(reply["failed"]))
        except (KeyError, TypeError, ValueError, RecursionError):  # the child can write anything
            error = self._blame("invalid reply")
        if trace := reply.get("traceback"):
            error.add_note(visible(str(trace), keep="\n"))
        raise error

    def _blame(self, problem: str) -> ForgeError:
        who = self._at or "the process that loads third-party code"
        return ThirdPartyError(f"{who}: {cut(problem, MAX_MESSAGE)}")

    def _forward_errors(self) -> None:
        """Print the child's standard error, with control characters escaped."""
        sys.stderr.write(visible(cut(self._child.stderr.take(), MAX_PRINTED), keep="\n\t"))


def _read_path(kind: Any, text: Any) -> Any:
    return kind(text)


def _read_message(line: str) -> JsonObject:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if isinstance(message, dict):
        return message
    return {"failed": "invalid reply"}


def _error_of(reply: JsonObject) -> ForgeError:
    told = reply["error"]
    where = Mark(*told["where"]) if told["where"] else None
    error = ForgeError(told["message"], where=where, hint=told["hint"])
    error.exit_code = ExitCode(told["exit_code"])
    return error
