"""Prompts and resources of toolsets, and requests of their servers to a session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from forge_cli.core.errors import ToolError
from forge_cli.core.messages import Message, StopReason
from forge_cli.core.wire import JsonObject


class SampleRequest(Struct, frozen=True, kw_only=True):
    """A request to the worker's model about messages outside of the conversation."""

    asker: str
    """The name of the requester for people, such as ``the MCP server notes``."""
    messages: tuple[Message, ...]
    system: str = ""


class SampleReply(Struct, frozen=True):
    """The answer of the model."""

    text: str
    model: str
    stop: StopReason


class AgreeRequest(Struct, frozen=True, kw_only=True):
    """A request for a person's consent to something other than a tool call."""

    kind: str
    """The kind of request, in place of a tool name."""
    asker: str
    """The name of the requester for people, such as ``the MCP server notes``."""
    question: str
    """The action that needs consent."""
    reason: str
    args: JsonObject


class SessionRequests(Protocol):
    """Serves requests to a session; a refusal is a ``ToolError``."""

    @property
    def attended(self) -> bool:
        """True if a person can read messages and act on them."""
        ...

    async def sample(self, request: SampleRequest) -> SampleReply:
        """Ask the worker's model; raise ToolError if that is refused or fails."""

    async def agree(self, request: AgreeRequest) -> bool:
        """Return True if a person agrees; False if no person can be asked."""
        ...

    async def ask_person(self, asker: str, message: str, schema: JsonObject) -> JsonObject | None:
        """Return the values that a person enters in a form; None if declined or unattended."""
        ...


class NoSession:
    """Answers requests when there is no session."""

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
    """The description of a prompt, before its arguments are filled in."""

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    def read_args(self, given: Sequence[str]) -> Mapping[str, str]:
        """Parse typed ``key=value`` arguments; a prompt with one argument needs no key."""
        names = [argument.name for argument in self.arguments]
        # Every second part of (key, "=", value).
        pairs = [text.partition("=")[::2] for text in given]
        # The text for a single argument may itself contain "=".
        if len(names) == 1 and given and not all(key in names for key, _ in pairs):
            pairs = [(names[0], " ".join(given))]
        # The first unknown key is enough for a person to see what is wrong.
        if wrong := [key for key, _ in pairs if key not in names]:
            takes = "it takes none"
            if names:
                takes = f"it takes {', '.join(names)}"
            raise ToolError(f"/{self.name} has no argument '{wrong[0]}'; {takes}")
        found = dict(pairs)
        if missing := [
            each.name for each in self.arguments if each.required and each.name not in found
        ]:
            raise ToolError(f"/{self.name} needs {', '.join(f'{name}=...' for name in missing)}")
        return found


_HOLE = re.compile(r"\{(\+?)([A-Za-z_]\w*)\}")


class ResourceSpec(Struct, frozen=True):
    """A resource that clients of a served worker can read.

    A URI with ``{name}`` is a template of many resources. ``{name}`` matches one path segment,
    ``{+name}`` any number of segments.
    """

    uri: str
    name: str
    description: str = ""
    media_type: str | None = None

    @property
    def is_template(self) -> bool:
        return _HOLE.search(self.uri) is not None

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the values of the names in the template; None if ``uri`` is another resource."""
        if not self.is_template:
            return {} if uri == self.uri else None
        names: list[str] = []
        pattern = ""
        at = 0
        for hole in _HOLE.finditer(self.uri):
            pattern += re.escape(self.uri[at : hole.start()]) + ("(.+)" if hole[1] else "([^/]+)")
            names.append(hole[2])
            at = hole.end()
        found = re.fullmatch(pattern + re.escape(self.uri[at:]), uri, re.DOTALL)
        if found is None:
            return None
        return dict(zip(names, found.groups(), strict=True))
