"""The control socket of a session, on which clients watch it, answer it and stop it.

The session sends the lines of its record, and clients send actions, both in the form of
``stream-json``. Each action gets a receipt. Terminals, the inbox and ``forge approvals answer`` are
clients; a session has no other way to be steered by another process.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from forge_cli.core.actions import ApprovalResponse, Interrupt, UserInput
from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError
from forge_cli.core.event_kinds import read_event
from forge_cli.core.events import ApprovalRequired, Event, InputPrompt
from forge_cli.core.wire import JsonObject, Unreadable, wire
from forge_cli.record.line import Line
from forge_cli.record.places import SessionLost
from forge_cli.record.socket_files import bind_socket, prove_client, socket_file, user_of_peer

HELLO, READY, RECEIPT = "hello", "ready", "receipt"
"""Types of the messages that are not events."""
HELLO_TIMEOUT = 5.0
"""Seconds that a client has to prove that it is the user's."""
CLOSE_TIMEOUT = 1.0
"""Seconds that clients have to read the last lines."""
MAX_MESSAGE = 1 << 20
"""Bytes of a message of a client."""
MAX_UNREAD = 8 << 20
"""Bytes that a client may leave unread before it is disconnected."""
ENDED = "the session has ended"


class Receipt(Struct, frozen=True):
    """The answer to an action: whether it counted, or else the reason."""

    counted: bool
    reason: str | None = None
    decision: ApprovalDecision | None = None
    """The answer that counted instead."""


class ControlSocket:
    """The socket of one session, served by its event loop.

    As a sink of the record it passes the lines on to clients that watch.
    """

    skips_transient: ClassVar[bool] = False

    def __init__(
        self,
        bus: EventBus,
        log: Path,
        *,
        watchable: bool = False,
        on_message: Callable[[UserInput], Receipt] | None = None,
        on_stop: Callable[[str], None] | None = None,
    ) -> None:
        """Make the socket of the session with this ``log``.

        ``on_message`` takes messages for the worker; without it, they are refused. ``on_stop`` is
        called before the work is interrupted. ``watchable`` promises that the socket gets each
        line.
        """
        self._bus = bus
        self._log = log
        self._watchable = watchable
        self._on_message = on_message
        self._on_stop = on_stop
        self._last = 0
        self._requests: dict[str, ApprovalRequest] = {}
        self._answers: dict[str, ApprovalDecision] = {}
        self._open_lines: dict[str, Line] = {}
        self._watchers: set[asyncio.StreamWriter] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unsubscribe: Callable[[], None] = lambda: None
        self._server: asyncio.Server | None = None

    def open(self, first: Event | None = None) -> None:
        """Listen from now on; ``first`` is a request that was made just before.

        Without a socket the session works all the same; nothing else can answer it then.
        """
        self._unsubscribe = self._bus.subscribe(
            self._hear, only=(ApprovalRequired, ApprovalResponse)
        )
        if first is not None:
            self._hear(first)
        with suppress(OSError, ForgeError):
            listening = bind_socket(socket_file(self._log))
            self._start(self._listen(listening))

    async def aclose(self) -> None:
        """Disconnect the clients once they have read the last lines, and remove the socket."""
        self._unsubscribe()
        with suppress(OSError):
            socket_file(self._log).unlink()
        if self._server:
            self._server.close()
        for writer in self._writers:
            writer.close()
        if self._writers:
            waiting = [asyncio.ensure_future(_closed(writer)) for writer in self._writers]
            await asyncio.wait(waiting, timeout=CLOSE_TIMEOUT)
            for each in waiting:
                each.cancel()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT)

    def __call__(self, line: Line) -> None:
        """Pass a line of the record on to the clients that watch."""
        if not line.transient:
            self._last = line.seq
            if line.type in (ApprovalRequired.type, InputPrompt.type):
                self._open_lines[str(line.data.get("requestId"))] = line
        if self._watchers:
            text = line.text().encode(errors="backslashreplace")
            for writer in list(self._watchers):
                self._write(writer, text)

    # --- clients

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listen(self, listening: Any) -> None:
        self._server = await asyncio.start_unix_server(
            lambda reader, writer: self._start(self._serve(reader, writer)),
            sock=listening,
            limit=MAX_MESSAGE,
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if user_of_peer(writer.get_extra_info("socket")) == os.getuid():
                await self._converse(reader, writer)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client has left, or is none of ours
        finally:
            self._writers.discard(writer)
            self._watchers.discard(writer)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = secrets.token_hex(16)
        session = self._log.stem
        self._tell(writer, {"type": HELLO, "session": session, "nonce": nonce})
        async with asyncio.timeout(HELLO_TIMEOUT):
            hello = _message(await reader.readline())
        proof = str(hello.get("proof")).encode(errors="replace")
        if not hmac.compare_digest(proof, prove_client(nonce, session).encode()):
            return
        watches = bool(hello.get("watch")) and self._watchable
        self._tell(
            writer,
            {"type": READY, "seq": self._last, "watch": watches, "pid": os.getpid()},
        )
        if watches:
            for request_id, line in list(self._open_lines.items()):
                if self._bus.is_open(request_id):
                    self._write(writer, line.text().encode(errors="backslashreplace"))
                else:
                    del self._open_lines[request_id]
            self._watchers.add(writer)
        while text := await reader.readline():
            message = _message(text)
            receipt = self._obey(message)
            self._tell(writer, {"type": RECEIPT, "id": message.get("id"), **wire(receipt)})

    def _tell(self, writer: asyncio.StreamWriter, message: JsonObject) -> None:
        self._write(writer, json.dumps(message).encode() + b"\n")

    def _write(self, writer: asyncio.StreamWriter, text: bytes) -> None:
        if writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > MAX_UNREAD:
            # A client that does not read must not make the session hold all lines.
            self._watchers.discard(writer)
            writer.transport.abort()
            return
        writer.write(text)

    # --- actions

    def _hear(self, event: Event) -> None:
        match event:
            case ApprovalRequired(request=request):
                # A request that asks again, because the call has changed, has no answer yet.
                self._answers.pop(request.request_id, None)
                self._requests[request.request_id] = request
            case ApprovalResponse(request_id=request_id, decision=decision):
                self._answers.setdefault(request_id, decision)
            case _:
                pass

    def _obey(self, message: JsonObject) -> Receipt:
        try:
            action = read_event(str(message.get("type")), message)
        except Unreadable as problem:
            return Receipt(False, f"not an action: {problem}")
        try:
            match action:
                case ApprovalResponse():
                    return self._answer(action, message)
                case UserInput() if self._bus.is_open(action.request_id):
                    self._bus.emit(action)
                    return Receipt(True)
                case UserInput() if self._on_message:
                    return self._on_message(action)
                case Interrupt():
                    if self._on_stop:
                        self._on_stop(action.reason)
                    self._bus.emit(action)
                    return Receipt(True)
                case _:
                    return Receipt(False, f"{message.get('type')}: not possible in this session")
        except SessionLost as error:
            return Receipt(False, str(error))

    def _answer(self, response: ApprovalResponse, message: JsonObject) -> Receipt:
        """Answer a request; the first answer counts, and later ones are told which it was."""
        request = self._requests.get(response.request_id)
        counted = self._answers.get(response.request_id)
        if counted is not None:
            return Receipt(False, decision=counted)
        if request is None or not self._bus.is_open(response.request_id):
            return Receipt(False, "no longer asked")
        if (request.fingerprint, request.stamp) != (
            message.get("fingerprint"),
            message.get("stamp"),
        ):
            return Receipt(False, "the call has changed since it was shown")
        self._bus.answer(response.request_id, response.decision)
        return Receipt(True)


def _message(text: bytes) -> JsonObject:
    """Return a message of a client; raise ValueError for anything else."""
    if not text:
        raise ValueError("the client has left")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("not a message")
    return found


async def _closed(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        await writer.wait_closed()
