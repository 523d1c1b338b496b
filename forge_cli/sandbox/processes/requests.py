"""Named pipes by which a command asks forge for something while it runs: one line of JSON there, one back.

Pipes have names, so that programs which close inherited descriptors can use them, and need no network and no socket.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from uuid import uuid4

import anyio

from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import ToolResult
from forge_cli.core.wire import JsonObject, Unreadable
from forge_cli.sandbox.processes.command import CALLS

LONGEST_REQUEST = 1 << 20
"""Bytes; a line that is longer is not answered."""
_AT_ONCE = 1 << 16
_REQUESTS, _ANSWERS = "requests", "answers"

AnswerRequest = Callable[[JsonObject], Awaitable[JsonObject]]


class RequestPipes:
    """The pipes of one command, and who answers there; requests are answered one after the other."""

    def __init__(self, answer: AnswerRequest) -> None:
        self.failure: Exception | None = None
        """The error that ended the answering."""
        self.refused: tuple[str, ...] = ()
        self._answer = answer
        self._served: anyio.Event | None = None
        self._opened = ExitStack()
        self.folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="forge-call-")))
        self._opened.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._requests, self._answers = map(self._make, self.paths)

    @property
    def paths(self) -> tuple[Path, Path]:
        return self.folder / _REQUESTS, self.folder / _ANSWERS

    def _make(self, path: Path) -> int:
        """A pipe that is open at both ends here, so that neither end of the command waits for us, nor we for it."""
        os.mkfifo(path, 0o600)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._opened.callback(os.close, descriptor)
        return descriptor

    def close(self) -> None:
        self._opened.close()

    async def wait_until_served(self) -> None:
        """Wait for the end of what the command asked for last, which ends with the command."""
        if self._served:
            await self._served.wait()

    async def serve(self, stop_clock: Callable[[], AbstractContextManager[None]]) -> None:
        self._served = anyio.Event()
        try:
            async for line in self._lines():
                if (request := _read_object(line)) is not None:
                    with stop_clock():
                        answer = await self._answer(request)
                    await self._write({**answer, "id": request.get("id")})
        except Exception as error:  # raised where the command was started
            self.failure = error
            self.close()
        finally:
            self._served.set()

    async def _lines(self) -> AsyncIterator[bytes]:
        kept = b""
        while True:
            await anyio.wait_readable(self._requests)
            with suppress(BlockingIOError):
                kept += os.read(self._requests, _AT_ONCE)
            *lines, kept = kept.split(b"\n")
            for line in lines:
                yield line
            kept = kept[:LONGEST_REQUEST]

    async def _write(self, answer: JsonObject) -> None:
        data = memoryview(json.dumps(answer).encode() + b"\n")
        while data:
            await anyio.wait_writable(self._answers)
            with suppress(BlockingIOError):
                data = data[os.write(self._answers, data[:_AT_ONCE]) :]


def send_request(folder: Path, request: JsonObject) -> JsonObject:
    """Ask from inside of a command, and wait for the answer."""
    asked = {**request, "id": uuid4().hex}
    data = b"\n%b\n" % json.dumps(asked).encode()
    if len(data) > LONGEST_REQUEST:
        raise ForgeError(f"the request has {len(data)} bytes, and {LONGEST_REQUEST} is the most")
    with ExitStack() as opened:
        try:
            requests = _open(folder / _REQUESTS, os.O_WRONLY, opened)
            answers = _open(folder / _ANSWERS, os.O_RDONLY, opened)
            fcntl.flock(requests, fcntl.LOCK_EX)
            while data:
                data = data[os.write(requests, data) :]
            for line in _answer_lines(answers):
                answer = _read_object(line)
                if answer is not None and answer.get("id") == asked["id"]:
                    return answer
        except OSError as error:
            raise ForgeError(f"forge does not answer at {folder}: {error.strerror}") from None
    raise ForgeError(f"forge does not answer at {folder} any more")


def _open(path: Path, flags: int, opened: ExitStack) -> int:
    """One end of a pipe, without waiting for the other."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    os.set_blocking(descriptor, True)
    return descriptor


def _answer_lines(descriptor: int) -> Iterator[bytes]:
    kept = b""
    while data := os.read(descriptor, _AT_ONCE):
        *lines, kept = (kept + data).split(b"\n")
        yield from lines


def _read_object(line: bytes) -> JsonObject | None:
    """The content of a line; its writer may have been cut off in the middle of one."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def pipes_of_caller() -> Path | None:
    """The place where the forge that has started this process as a tool answers, if it does."""
    given = os.environ.get(CALLS)
    return Path(given) if given else None


def call_through(
    pipes: Path, name: str, read_args: Callable[[JsonObject], JsonObject]
) -> ToolOutcome:
    """Have the call made; ``read_args`` is given the schema of the tool."""
    answer = send_request(pipes, {"tool": name})
    schema = answer.get("schema")
    if isinstance(schema, dict):
        answer = send_request(pipes, {"tool": name, "args": read_args(schema)})
    try:
        result = ToolResult.read(answer.get("result") or {})
    except Unreadable as error:
        raise ForgeError(f"{pipes} gives an answer that is not a result: {error}") from None
    call = ToolCall(result.tool_call_id, result.tool_name, {})
    return ToolOutcome(call, result.status, result.value, result.error, result.duration_ms)
