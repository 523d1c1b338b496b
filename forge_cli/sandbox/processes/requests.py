"""Named pipes through which a command sends requests to forge: a line of JSON each way.

Named pipes also work for programs that close inherited descriptors, and need no network or socket.
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

MAX_REQUEST = 1 << 20
"""Bytes of a request; longer lines are not answered."""
_MAX_READ = 1 << 16
_REQUESTS = "requests"
_ANSWERS = "answers"

AnswerRequest = Callable[[JsonObject], Awaitable[JsonObject]]


class RequestPipes:
    """The pipes of one command; requests are answered one after the other."""

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
        """Open a pipe at both ends, so that neither side waits for the other."""
        os.mkfifo(path, 0o600)
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._opened.callback(os.close, descriptor)
        return descriptor

    def close(self) -> None:
        self._opened.close()

    async def wait_until_served(self) -> None:
        """Wait until the last request is answered, which ends with the command."""
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
                kept += os.read(self._requests, _MAX_READ)
            *lines, kept = kept.split(b"\n")
            for line in lines:
                yield line
            # A line without an end must not fill the memory.
            kept = kept[:MAX_REQUEST]

    async def _write(self, answer: JsonObject) -> None:
        data = memoryview(json.dumps(answer).encode() + b"\n")
        while data:
            await anyio.wait_writable(self._answers)
            with suppress(BlockingIOError):
                data = data[os.write(self._answers, data[:_MAX_READ]) :]


def send_request(folder: Path, request: JsonObject) -> JsonObject:
    """Send a request from inside a command, and wait for the answer."""
    asked = {**request, "id": uuid4().hex}
    # The first line break ends what a killed writer has left in the pipe.
    data = b"\n%b\n" % json.dumps(asked).encode()
    if len(data) > MAX_REQUEST:
        raise ForgeError(f"the request has {len(data)} bytes; the limit is {MAX_REQUEST}")
    with ExitStack() as opened:
        try:
            requests = _open(folder / _REQUESTS, os.O_WRONLY, opened)
            answers = _open(folder / _ANSWERS, os.O_RDONLY, opened)
            # Several processes of a command may ask at once, and answers share one pipe.
            fcntl.flock(requests, fcntl.LOCK_EX)
            while data:
                data = data[os.write(requests, data) :]
            for line in _answer_lines(answers):
                answer = _read_object(line)
                if answer is not None and answer.get("id") == asked["id"]:
                    return answer
        except OSError as error:
            raise ForgeError(f"no answer from forge at {folder}: {error.strerror}") from None
    raise ForgeError(f"forge no longer answers at {folder}")


def _open(path: Path, flags: int, opened: ExitStack) -> int:
    """Open one end of a pipe without waiting for the other."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    opened.callback(os.close, descriptor)
    os.set_blocking(descriptor, True)
    return descriptor


def _answer_lines(descriptor: int) -> Iterator[bytes]:
    kept = b""
    while data := os.read(descriptor, _MAX_READ):
        *lines, kept = (kept + data).split(b"\n")
        yield from lines


def _read_object(line: bytes) -> JsonObject | None:
    """Return the JSON object in a line; None if its writer was cut off."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def pipes_of_caller() -> Path | None:
    """Return the pipes of the forge that started this process as a tool, or None."""
    given = os.environ.get(CALLS)
    return Path(given) if given else None


def call_through(
    pipes: Path, name: str, read_args: Callable[[JsonObject], JsonObject]
) -> ToolOutcome:
    """Have the calling forge make a call; ``read_args`` gets the schema of the tool."""
    answer = send_request(pipes, {"tool": name})
    schema = answer.get("schema")
    if isinstance(schema, dict):
        answer = send_request(pipes, {"tool": name, "args": read_args(schema)})
    try:
        result = ToolResult.read(answer.get("result") or {})
    except Unreadable as error:
        raise ForgeError(f"{pipes} gave an answer that is not a result: {error}") from None
    call = ToolCall(result.tool_call_id, result.tool_name, {})
    return ToolOutcome(call, result.status, result.value, result.error, result.duration_ms)
