"""The prompts that a toolset offers to people, and the requests of its server to a session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.messages import Message, StopReason
from forge_cli.core.wire import JsonObject


class SampleRequest(Struct, frozen=True, kw_only=True):
    """Somebody wants the worker's model to answer messages that are not part of the conversation."""

    asker: str
    """The name of the asker, as people are told: ``the MCP server notes``."""
    messages: tuple[Message, ...]
    system: str = ""


class SampleReply(Struct, frozen=True):
    """The answer of the model."""

    text: str
    model: str
    stop: StopReason


class AgreeRequest(Struct, frozen=True, kw_only=True):
    """Somebody wants to do what the person has to agree to, and no model has called."""

    kind: str
    """The name of such a request in place of a tool."""
    asker: str
    """The name of the asker, as people are told: ``the MCP server notes``."""
    question: str
    """The thing that would be done."""
    reason: str
    args: JsonObject


class SessionRequests(Protocol):
    """Serves what others ask of a session; what is refused is a ToolError."""

    @property
    def attended(self) -> bool:
        """Return True if somebody is there who could be told, and could do something about it."""
        ...

    async def sample(self, request: SampleRequest) -> SampleReply:
        """Have the worker's model answer; ToolError where that is refused or fails."""

    async def agree(self, request: AgreeRequest) -> bool:
        """Return True if a person agrees; False where none is there."""
        ...

    async def ask_person(self, asker: str, message: str, schema: JsonObject) -> JsonObject | None:
        """The values that a person fills into a form; None where that is declined, or no person is there."""
        ...


class NoSession:
    """The absence of a session, of which nothing can be asked."""

    attended = False

    async def sample(self, request: SampleRequest) -> SampleReply:
        raise ToolError("there is no session whose model could answer")

    async def agree(self, request: AgreeRequest) -> bool:
        return False

    async def ask_person(self, asker: str, message: str, schema: JsonObject) -> JsonObject | None:
        return None


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class PromptSpec(Struct, frozen=True):
    """The part of a prompt that a person sees before it is filled in."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    def read_args(self, given: Sequence[str]) -> Mapping[str, str]:
        """``key=value`` as it was typed; the only argument of a prompt needs no key."""
        names = [argument.name for argument in self.arguments]
        pairs = [text.partition("=")[::2] for text in given]
        if len(names) == 1 and given and not all(key in names for key, _ in pairs):
            pairs = [(names[0], " ".join(given))]
        if wrong := [key for key, _ in pairs if key not in names]:
            takes = f"it takes {', '.join(names)}" if names else "it takes none"
            raise ToolError(f"/{self.name} has no argument '{wrong[0]}'; {takes}")
        found = dict(pairs)
        if missing := [
            each.name for each in self.arguments if each.required and each.name not in found
        ]:
            raise ToolError(f"/{self.name} needs {', '.join(f'{name}=...' for name in missing)}")
        return found


_HOLE = re.compile(r"\{(\+?)([A-Za-z_]\w*)\}")


class ResourceSpec(Struct, frozen=True):
    """Something that clients of a served worker can read; ``{name}`` in the URI makes it a template of many.

    ``{name}`` is one part of a URI, ``{+name}`` any number of them.
    """

    uri: str
    name: str
    description: str = ""
    media_type: str | None = None

    @property
    def is_template(self) -> bool:
        return _HOLE.search(self.uri) is not None

    def match(self, uri: str) -> dict[str, str] | None:
        """The values of the names in the URI; None where another resource is meant."""
        if not self.is_template:
            return {} if uri == self.uri else None
        names: list[str] = []
        pattern = ""
        at = 0
        for hole in _HOLE.finditer(self.uri):
            pattern += re.escape(self.uri[at : hole.start()]) + ("(.+)" if hole[1] else "([^/]+)")
            names.append(hole[2])
            at = hole.end()
        found = re.fullmatch(pattern + re.escape(self.uri[at:]), uri)
        return dict(zip(names, found.groups(), strict=True)) if found else None
