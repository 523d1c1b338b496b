"""The JSON-RPC connection to an editor over the standard streams."""

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

CLOSE_TIMEOUT = 2.0
"""Seconds that an editor has to read the last messages."""
MAX_MESSAGES = float("inf")
"""Messages that can be queued: without a limit, because ``post`` cannot wait."""


class EditorChannel:
    """A transport of the protocol's package; a separate task writes messages in order."""

    def __init__(self, lines: ClientLines) -> None:
        self._lines = lines
        self._arriving, self._incoming = create_memory_object_stream[JsonObject](0)
        self._outgoing, self._leaving = create_memory_object_stream[JsonObject](MAX_MESSAGES)
        self._reading = anyio.CancelScope()
        self._written = anyio.Event()

    async def read(self) -> None:
        """Read messages until the editor closes its end, or until ``stop``."""
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
        """Write the posted messages; an editor that no longer reads counts as gone."""
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
        """Stop reading."""
        self._reading.cancel()

    def post(self, message: JsonObject) -> None:
        """Queue a message; after the end it is dropped."""
        with suppress(anyio.ClosedResourceError):
            self._outgoing.send_nowait(message)

    async def send(self, message: JsonObject) -> None:
        self.post(message)

    async def receive(self) -> JsonObject | None:
        """Return the next message, or None if the editor has left."""
        try:
            return await self._incoming.receive()
        except anyio.EndOfStream:
            return None

    async def close(self) -> None:
        """Wait until the posted messages are written, if the editor reads them."""
        self._outgoing.close()
        with anyio.move_on_after(CLOSE_TIMEOUT):
            await self._written.wait()


class EditorClient:
    """The connection as sessions see it; ``handle`` answers the editor's requests."""

    def __init__(
        self, channel: EditorChannel, handle: Callable[[str, Any, bool], Awaitable[Any]]
    ) -> None:
        self._channel = channel
        self.connection = Connection(handle, channel, listening=False)
        self.capabilities = schema.ClientCapabilities()

    @property
    def can_fill_forms(self) -> bool:
        """True if the editor can ask its user for a line of text."""
        # an editor that names neither mode supports forms
        elicitation = self.capabilities.elicitation
        return elicitation is not None and (elicitation.form is not None or elicitation.url is None)

    def tell(self, session: str, update: Update) -> None:
        params = serialize_params(schema.SessionNotification(session_id=session, update=update))
        self._channel.post({"jsonrpc": "2.0", "method": "session/update", "params": params})

    async def ask(self, method: str, params: BaseModel) -> Any:
        """Send a request and return the answer, which may never come.

        Raises ConnectionError if the editor has left.
        """
        return await self.connection.send_request(method, serialize_params(params))


def read_message(line: bytes) -> JsonObject:
    """Return the message in a line; raise a RequestError if it is invalid."""
    try:
        message: Any = json.loads(line)
    except (ValueError, RecursionError):
        raise RequestError.parse_error({"details": "this line is not JSON"}) from None
    if not isinstance(message, dict):
        raise _invalid("a message must be a JSON object")
    if not isinstance(message.get("id"), str | int | None) or isinstance(message.get("id"), bool):
        raise _invalid("the id of a message must be a string or an integer")
    if "method" in message and not isinstance(message["method"], str):
        raise _invalid("a method must be a string")
    if "method" not in message and not ("id" in message and {"result", "error"} & message.keys()):
        raise _invalid("neither a request nor a response")
    if "method" not in message and not isinstance(message.get("error") or {}, dict):
        raise _invalid("an error must be a JSON object")
    return message


def _invalid(details: str) -> RequestError:
    return RequestError.invalid_request({"details": details})
