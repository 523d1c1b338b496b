"""The messages between an editor and its worker over the standard streams; what is not one is answered as such."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from acp import RequestError, schema
from acp.connection import Connection
from acp.utils import serialize_params
from anyio import create_memory_object_stream
from pydantic import BaseModel

from forge_cli.apps.acp.convert import Update
from forge_cli.core.wire import JsonObject
from forge_cli.process.client_lines import ClientLines, is_lost, request_id

LAST_ANSWERS = 2.0
"""Seconds that an editor has to read what is left to tell it."""
MOST_MESSAGES = float("inf")


class EditorChannel:
    """A transport of the protocol's package: what is posted is written in that order, by a task of its own."""

    def __init__(self, lines: ClientLines) -> None:
        self._lines = lines
        self._arriving, self._incoming = create_memory_object_stream[JsonObject](0)
        self._outgoing, self._leaving = create_memory_object_stream[JsonObject](MOST_MESSAGES)
        self._reading = anyio.CancelScope()
        self._written = anyio.Event()

    async def read(self) -> None:
        """Take messages until the editor closes its end, or until ``stop``."""
        async with self._arriving:
            with self._reading:
                async for line in self._lines.read():
                    try:
                        message = read_message(line)
                    except RequestError as error:
                        self.post(
                            {
                                "jsonrpc": "2.0",
                                "id": request_id(line),
                                "error": error.to_error_obj(),
                            }
                        )
                    else:
                        await self._arriving.send(message)

    async def write(self) -> None:
        """Tell the editor what is posted; one that has stopped reading has left."""
        try:
            async for message in self._leaving:
                await self._lines.write(json.dumps(message, separators=(",", ":"), default=str))
        except Exception as error:
            if not is_lost(error):
                raise
            self.stop()
        finally:
            self._written.set()

    def stop(self) -> None:
        """Read nothing more."""
        self._reading.cancel()

    def post(self, message: JsonObject) -> None:
        """Have something written, after what was posted before; at the end it is not read any more."""
        with suppress(anyio.ClosedResourceError):
            self._outgoing.send_nowait(message)

    async def send(self, message: JsonObject) -> None:
        self.post(message)

    async def receive(self) -> JsonObject | None:
        """The next message; None where the editor has left."""
        try:
            return await self._incoming.receive()
        except anyio.EndOfStream:
            return None

    async def close(self) -> None:
        """Let what was posted be written, if the editor reads it."""
        self._outgoing.close()
        with anyio.move_on_after(LAST_ANSWERS):
            await self._written.wait()


class EditorClient:
    """The editor at the other end, as sessions see it; ``handle`` answers its requests."""

    def __init__(
        self, channel: EditorChannel, handle: Callable[[str, Any, bool], Awaitable[Any]]
    ) -> None:
        self._channel = channel
        self.connection = Connection(handle, channel, listening=False)
        self.capabilities = schema.ClientCapabilities()

    @property
    def can_fill_forms(self) -> bool:
        """Whether it can ask its user for a line of text."""
        elicitation = self.capabilities.elicitation
        return elicitation is not None and (elicitation.form is not None or elicitation.url is None)

    def tell(self, session: str, update: Update) -> None:
        params = serialize_params(schema.SessionNotification(session_id=session, update=update))
        self._channel.post({"jsonrpc": "2.0", "method": "session/update", "params": params})

    async def ask(self, method: str, params: BaseModel) -> Any:
        """Have it answer a request; it may never do so, and raises ConnectionError where it has left."""
        return await self.connection.send_request(method, serialize_params(params))


def read_message(line: bytes) -> JsonObject:
    """The message that a line is; a RequestError says what is wrong with it."""
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestError.parse_error({"details": "this line is not JSON"}) from None
    if not isinstance(message, dict):
        raise _invalid("a message is a JSON object")
    if not isinstance(message.get("id"), str | int | None) or isinstance(message.get("id"), bool):
        raise _invalid("the id of a message is a text or a whole number")
    if "method" in message and not isinstance(message["method"], str):
        raise _invalid("a method is a text")
    if "method" not in message and not ("id" in message and {"result", "error"} & message.keys()):
        raise _invalid("this is neither a request nor an answer")
    if "method" not in message and not isinstance(message.get("error") or {}, dict):
        raise _invalid("an error is a JSON object")
    return message


def _invalid(details: str) -> RequestError:
    return RequestError.invalid_request({"details": details})
