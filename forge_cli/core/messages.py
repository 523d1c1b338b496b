"""Messages between forge and a model, in the format of no provider, and the pace at which models are asked."""

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
    """Tokens of one turn, or of many added up."""

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
    """The result of one call, as the model reads it."""

    call_id: str
    tool: str
    text: str
    is_error: bool = False
    files: tuple[Image | Blob, ...] = ()
    """Files that a provider may show to a model that sees; ``text`` describes them already."""

    @classmethod
    def of(cls, call_id: str, tool: str, value: ResultValue, *, is_error: bool) -> CallResult:
        """The result of a call that gave this value."""
        return cls(call_id, tool, for_model(value), is_error, shown_files(value))


BYTES_A_TOKEN = 4
"""Of text in a file, as a guess."""


class Attachment(Struct, frozen=True):
    """A file that goes along with what the user says."""

    name: str
    media_type: str
    data: bytes

    def about(self) -> str:
        """``shot.png (198 KB, 1280x800, about 1,365 tokens)``, the tokens as far as they can be guessed."""
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
        """Text as text, so that secrets in it are seen and redacted; anything else in base64."""
        found: JsonObject = {"name": self.name, "mediaType": self.media_type}
        if self.media_type.startswith("text/"):
            return {**found, "text": self.data.decode("utf-8", "replace")}
        return {**found, "data": base64.b64encode(self.data).decode()}


class Summary(Struct, frozen=True):
    """The parts of what stands for the beginning of a conversation; the text of its message has all of them."""

    text: str
    """The summary that the model made."""
    said: tuple[str, ...] = ()
    """The words of the user, verbatim."""
    called: Mapping[str, str] = field(default_factory=dict)
    """By tool: the last call of each one that lasts, verbatim."""


class Message(Struct, frozen=True):
    """One entry of the history: what the user said, what the model said and called, or what the calls gave.

    ``native`` is what a provider wants back as it was (thinking blocks, say); no other code looks inside.
    """

    off_wire: ClassVar = ("results",)
    role: Literal["user", "assistant", "tool"]
    text: str = field(default="", name="content")
    calls: tuple[ToolCall, ...] = ()
    results: tuple[CallResult, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    native: Any = None
    summary: Summary | None = None
    """There when this message stands for others that were taken out."""

    def wire(self) -> JsonObject:
        """The words and calls of the message; results of calls have events of their own."""
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
    try:
        content = (
            found.text.encode() if found.text is not None else base64.b64decode(found.data or "")
        )
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
    """The words in it that are forge's own, and another version may say otherwise; a record does not have this."""

    def wire(self) -> JsonObject:
        """As a JSON object."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema,
        }


class ModelRequest(Struct, frozen=True):
    """Everything a model is told for one turn."""

    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]


class TextDelta(Struct, frozen=True):
    """A piece of the answer, as it arrives."""

    text: str


class Restart(Struct, frozen=True):
    """The turn starts again, after the connection was cut: what has arrived of it is void."""

    reason: str


StopReason = Literal["end", "tool_use", "max_tokens", "refusal"]


class TurnEnd(Struct, frozen=True):
    """The model has finished its turn; ``stop`` says why."""

    stop: StopReason = "end"
    usage: Usage = Usage()
    native: Any = None


Delta = TextDelta | ToolCall | Restart | TurnEnd


class ModelProvider(Protocol):
    """A model that can be talked to; made by a ModelFactory once its name is known."""

    @property
    def name(self) -> str:
        """The name of the model, such as ``script:demo.yaml``."""
        ...

    @property
    def context_window(self) -> int | None:
        """How many tokens it takes in all; None where that is not known."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """One turn: text as it comes, whole calls, and one TurnEnd as the last item."""
        ...

    async def aclose(self) -> None:
        """Close connections; nothing is asked of the model after that."""
        ...


class ModelEnv(Struct, frozen=True, kw_only=True):
    """The surroundings that a model may know; a relative path in its name is looked for in ``folders``, in order."""

    folders: tuple[Path, ...]
    notify: Notify
    options: Mapping[str, Any] = field(default_factory=dict)
    """The user's config of this very model under ``models:``, in keys that hold for every provider."""
    settings: Any = None
    """The same in keys of the provider's own, read by the factory's ``Options``; None where it has none."""

    def find(self, name: str) -> Path:
        """The file of that name, in the first folder that has one."""
        paths = [folder / name for folder in self.folders]
        return next((path for path in paths if path.exists()), paths[0])


class ListedModel(Struct, frozen=True):
    """A model that a provider offers: what stands behind ``PROVIDER:``, and its window where that is known."""

    name: str
    context: int | None = None
    guessed: bool = False
    """True if the window is a guess, from other models of its family."""


@dataclass(frozen=True)
class ModelFactory:
    """How a provider makes its models: ``script:demo.yaml`` asks the factory ``script`` for ``demo.yaml``.

    A provider with options of its own has a subclass, in which ``Options`` names them.
    """

    Options: ClassVar[type[BaseModel] | None] = None
    """A ``Config``: keys of its own under ``models.NAME`` in the user's config; they arrive as ``env.settings``."""
    prefix: str
    make: Callable[[str, ModelEnv], ModelProvider]
    needs: str = ""
    """The needs of the provider in one short line, for people."""
    missing: Callable[[], str | None] = lambda: None
    """Say which of them is not met right now, as a sentence with the remedy; None when the provider is ready."""
    keys: tuple[str, ...] = ()
    """The variables that may hold its key, see ``find_key``."""
    catalog: Callable[[], Sequence[ListedModel]] = tuple
    """The models that it is known to have, without asking anybody; nothing where any name may be one."""
    ask: Callable[[], Awaitable[Sequence[ListedModel]]] | None = None
    """Asks the server which models it has, for ``forge models list``; a ModelError says why there is no answer."""
    names: Callable[[], Sequence[str]] | None = None
    """The names in the catalog alone, where those are known sooner than the windows."""

    def known_names(self) -> Sequence[str]:
        """The names in the catalog, found as soon as they can be."""
        return self.names() if self.names else [each.name for each in self.catalog()]


class Pace(Protocol):
    """Decides when the next request may go out, for everybody who shares it."""

    def request(self) -> AbstractAsyncContextManager[None]:
        """Around one request: waits for its turn, and learns how it ended."""
        ...

    def go_ahead(self) -> None:
        """Within a request: others need not wait for its answer."""
        ...

    def tell(self, problem: str) -> None:
        """A request has failed, and is made again."""
        ...

    def hold(self, seconds: float) -> None:
        """Within a request: the provider is busy, and wants no further one for so long."""
        ...

    async def back_off(self, seconds: float) -> None:
        """The same, and wait for the next turn."""
        ...


current_pace: ContextVar[Pace | None] = ContextVar("current_pace", default=None)
"""The pace of the task that runs; None where it shares none."""


def paced_request() -> AbstractAsyncContextManager[None]:
    """Around one request to a model, at the pace of the task that runs."""
    pace = current_pace.get()
    return pace.request() if pace else nullcontext()


def let_others_go() -> None:
    """Within a request: its prompt is in the provider's cache."""
    if pace := current_pace.get():
        pace.go_ahead()
