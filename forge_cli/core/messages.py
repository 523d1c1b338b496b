"""Messages between forge and a model, independent of providers, and the pace of requests."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import asdict

from forge_cli.core.calls import ToolCall
from forge_cli.core.media import Blob, Image
from forge_cli.core.results import ResultValue, for_model, shown_files
from forge_cli.core.text import counted
from forge_cli.core.wire import JsonObject, OnWire, Unreadable, jsonable, own_reader, read, wire

if TYPE_CHECKING:
    from pydantic import BaseModel

    from forge_cli.core.notify import Notify


class Usage(OnWire, frozen=True):
    """Tokens of one turn, or of several turns in total."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            **{name: tokens + getattr(other, name) for name, tokens in asdict(self).items()}
        )

    @property
    def sent_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


class CallResult(Struct, frozen=True):
    """The result of a call as the model reads it."""

    call_id: str
    tool: str
    text: str
    is_error: bool = False
    files: tuple[Image | Blob, ...] = ()
    """Files for a model with vision; ``text`` describes them already."""

    @classmethod
    def of(cls, call_id: str, tool: str, value: ResultValue, *, is_error: bool) -> CallResult:
        """Return the result of a call that returned this value."""
        return cls(call_id, tool, for_model(value), is_error, shown_files(value))


BYTES_A_TOKEN = 4
"""Estimated bytes of text per token."""


class Attachment(Struct, frozen=True):
    """A file that accompanies a message of the user."""

    name: str
    media_type: str
    data: bytes

    def about(self) -> str:
        """Return a description: ``shot.png (198 KB, 1280x800, about 1,365 tokens)``."""
        from forge_cli.core.pictures import HEAD, dimensions, file_size

        facts = [file_size(len(self.data))]
        tokens = None
        if self.media_type.startswith("text/"):
            tokens = len(self.data) // BYTES_A_TOKEN
        elif size := dimensions(self.data[:HEAD]):
            from forge_cli.core.pictures import image_tokens

            facts.append(f"{size[0]}x{size[1]}")
            tokens = image_tokens(*size)
        if tokens is not None:
            facts.append(f"about {counted(tokens, 'token')}")
        return f"{self.name} ({', '.join(facts)})"

    def wire(self) -> JsonObject:
        """Return the file as JSON."""
        found: JsonObject = {"name": self.name, "mediaType": self.media_type}
        # Text stays text, because secrets inside of base64 would not be found and redacted.
        if self.media_type.startswith("text/"):
            found["text"] = self.data.decode("utf-8", "replace")
        else:
            found["data"] = base64.b64encode(self.data).decode()
        return found


class Summary(Struct, frozen=True):
    """The parts of a summary message, whose text contains all of them."""

    text: str
    """The summary by the model."""
    said: tuple[str, ...] = ()
    """The words of the user, verbatim."""
    called: Mapping[str, str] = field(default_factory=dict)
    """The last call of each lasting tool by name, verbatim."""


class Message(Struct, frozen=True):
    """An entry of the history: a message of the user or the model, or results of calls.

    ``native`` is provider data that must be sent back unchanged, such as thinking blocks; only the
    provider reads it.
    """

    off_wire: ClassVar = ("results",)
    role: Literal["user", "assistant", "tool"]
    text: str = field(default="", name="content")
    calls: tuple[ToolCall, ...] = ()
    results: tuple[CallResult, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    native: Any = None
    summary: Summary | None = None
    """Present if this message replaces others."""

    def wire(self) -> JsonObject:
        """Return the text and calls of the message; results of calls have their own events."""
        found: JsonObject = {"role": jsonable(self.role), "content": jsonable(self.text)}
        if self.calls:
            found["calls"] = [wire(call) for call in self.calls]
        if self.attachments:
            found["attachments"] = [jsonable(file.wire()) for file in self.attachments]
        if self.native is not None:
            found["native"] = jsonable(self.native)
        if self.summary is not None:
            found["summary"] = wire(self.summary)
        return found


class _WireFile(Struct, frozen=True):
    name: str
    media_type: str
    text: str | None = None
    data: str | None = None


def _read_attachment(data: Any) -> Attachment:
    found = read(_WireFile, data)
    if found.text is not None:
        return Attachment(found.name, found.media_type, found.text.encode())
    try:
        content = base64.b64decode(found.data or "")
    except (binascii.Error, ValueError):
        raise Unreadable("data: not base64") from None
    return Attachment(found.name, found.media_type, content)


own_reader(Attachment, _read_attachment)


OwnWords = Literal["none", "schema", "all"]


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: JsonObject
    own_words: OwnWords = "none"
    """Which words come from forge and may change between versions; not recorded."""

    def wire(self) -> JsonObject:
        """Return the tool as a JSON object."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }


class ModelRequest(Struct, frozen=True):
    """Everything that a model gets for one turn."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]


class TextDelta(Struct, frozen=True):
    """A piece of the answer, sent as it arrives."""

    text: str


class Restart(Struct, frozen=True):
    """The turn starts again after a connection was lost; the answer so far is void."""

    reason: str


StopReason = Literal["end", "tool_use", "max_tokens", "refusal"]


class TurnEnd(Struct, frozen=True):
    """The end of the model's turn; ``stop`` is the reason."""

    stop: StopReason = "end"
    usage: Usage = Usage()
    native: Any = None


Delta = TextDelta | ToolCall | Restart | TurnEnd


class ModelProvider(Protocol):
    """A model to talk to, made by a ``ModelFactory``."""

    @property
    def name(self) -> str:
        """The name of the model, such as ``script:demo.yaml``."""
        ...

    @property
    def context_window(self) -> int | None:
        """The context window in tokens; None if unknown."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield one turn: text as it arrives, whole calls, and one ``TurnEnd`` as the last item."""
        ...

    async def aclose(self) -> None:
        """Close connections; no requests follow."""
        ...


class ModelEnv(Struct, frozen=True, kw_only=True):
    """The environment of a model: folders, messages and options.

    A relative path in its name is searched in ``folders``, in order.
    """

    folders: tuple[Path, ...]
    notify: Notify
    options: Mapping[str, Any] = field(default_factory=dict)
    """The user's config of this model under ``models:``, with the keys that all providers share."""
    settings: Any = None
    """Provider-specific keys, parsed by the factory's ``Options``; None without such a class."""

    def find(self, name: str) -> Path:
        """Return the file with that name in the first folder that has one."""
        paths = [folder / name for folder in self.folders]
        return next((path for path in paths if path.exists()), paths[0])


class ListedModel(Struct, frozen=True):
    """A model that a provider offers: the name after ``PROVIDER:``, and its window if known."""

    name: str
    context: int | None = None
    guessed: bool = False
    """True if the window is a guess from other models of the family."""


@dataclass(frozen=True)
class ModelFactory:
    """A provider of models: ``script:demo.yaml`` asks the factory ``script`` for ``demo.yaml``.

    A provider with its own options has a subclass that defines ``Options``.
    """

    Options: ClassVar[type[BaseModel] | None] = None
    """A ``Config`` class for keys under ``models.NAME`` in the user's config.

    Its values arrive as ``env.settings``.
    """
    prefix: str
    make: Callable[[str, ModelEnv], ModelProvider]
    needs: str = ""
    """The requirements of the provider in one short line, for people."""
    missing: Callable[[], str | None] = lambda: None
    """Return the missing requirement and its remedy; None if the provider is ready."""
    keys: tuple[str, ...] = ()
    """Environment variables that may contain the key, see ``find_key``."""
    catalog: Callable[[], Sequence[ListedModel]] = tuple
    """Return the known models without any request; empty if any name may be valid."""
    ask: Callable[[], Awaitable[Sequence[ListedModel]]] | None = None
    """Ask the server for its models, for ``forge models list``; a ModelError explains a failure."""
    names: Callable[[], Sequence[str]] | None = None
    """Return only the names in the catalog, if that is faster."""

    def known_names(self) -> Sequence[str]:
        """Return the names in the catalog as cheaply as possible."""
        if self.names:
            return self.names()
        return [each.name for each in self.catalog()]


class Pace(Protocol):
    """Schedules the requests of all tasks that share it."""

    def request(self) -> AbstractAsyncContextManager[None]:
        """Return the context of a request: wait for its turn, and learn from its outcome."""
        ...

    def go_ahead(self) -> None:
        """Let other requests start before the answer to this one arrives."""
        ...

    def tell(self, problem: str) -> None:
        """Report a failed request that will be repeated."""
        ...

    def hold(self, seconds: float) -> None:
        """Delay further requests, because the provider is busy."""
        ...

    async def back_off(self, seconds: float) -> None:
        """Delay further requests, and wait for the next turn."""
        ...


current_pace: ContextVar[Pace | None] = ContextVar("current_pace", default=None)
"""The pace of the running task; None without one."""


def paced_request() -> AbstractAsyncContextManager[None]:
    """Return the context of one model request at the pace of the running task."""
    pace = current_pace.get()
    return pace.request() if pace else nullcontext()


def let_others_go() -> None:
    """Let other requests start: the prompt of this one is in the provider's cache now."""
    if pace := current_pace.get():
        pace.go_ahead()
