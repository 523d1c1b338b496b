"""The tools that a worker offers, and those that a model reads definitions of: all, while they fit into its window."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.source import Source
from forge_cli.engine import gate
from forge_cli.engine.gate.policy import Policy
from forge_cli.files.worker import DEFAULT_TOOL_SHARE
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.engine.gate.toolbox import Toolbox

FIND_TOOLS = "find_tools"
SERVERS = "mcp"
"""The toolset whose tools are deferred before those of any other."""
OWN = Source("builtin", "forge")
Group = tuple[str, str]
WINDOW = 128_000
"""Tokens that a model is taken to have room for where its window is not known."""
BYTES_A_TOKEN = 3
"""A guess on the safe side; it counts only until the provider has counted."""

_json_text = json.JSONEncoder(ensure_ascii=False).encode


def size_of(text: str) -> int:
    """In bytes, which say more about tokens than characters do."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def text_tokens(text: str) -> int:
    """The tokens of the window that a text takes, as a guess."""
    return size_of(text) // BYTES_A_TOKEN


def definition_tokens(tool: Tool) -> int:
    """The tokens of the window that the definition of a tool takes, as a guess."""
    return text_tokens(f"{tool.name}{tool.description}{_json_text(tool.schema.json_schema)}")


class Offer(Struct, frozen=True, dict=True):
    """A tool as one worker offers it: under its name here, with the worker's policy for it."""

    tool: Tool
    toolset: str
    policy: Policy
    original: str = ""
    """The tool's name before ``prefix:``."""

    @cached_property
    def tokens(self) -> int:
        """The tokens of the window that the definition of its tool takes."""
        return definition_tokens(self.tool)


class ToolRoom(Struct, frozen=True):
    """How many tokens definitions may take: a share of a window."""

    share: float
    window: int

    @classmethod
    def of(cls, share: float | None, window: int | None) -> ToolRoom:
        return cls(DEFAULT_TOOL_SHARE if share is None else share, window or WINDOW)

    @property
    def tokens(self) -> int:
        return int(self.share * self.window)

    def __str__(self) -> str:
        return f"{self.share:.0%} of a window of {self.window:,}"


class OfferedTools:
    """The tools of each turn: all of them, until they do not fit any more; what the model has loaded stays.

    Every tool can be called, loaded or not: a call passes the gate like any other, and loads its tool.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        room: ToolRoom,
        *,
        known: Sequence[str] = (),
        recorded: Sequence[str] | None = None,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """``known`` are the tools that a resumed session was offered last; ``recorded`` those of a replayed one."""
        self.toolbox, self.room, self.tell = toolbox, room, tell
        self.names, self.recorded = tuple(recorded or known), recorded
        """The tools whose definitions the model was given last."""
        self.groups: set[Group] = set()
        """Those that are deferred."""
        self._loaded: dict[str, None] = {}

    async def start(self) -> None:
        """Decide before the first turn, so that the system prompt can name what is deferred."""
        if not self._fit and gate.deferred.defer(self):
            await self.toolbox.refresh()

    async def refresh(self) -> list[Tool]:
        """The tools of the next turn; tools that came since may have to be deferred, too."""
        await self.toolbox.refresh()
        await self.start()
        offers = self.toolbox.offers
        kept = [offer for offer in offers.values() if not self.is_deferred(offer)]
        loaded = [offers[name] for name in self._loaded if name in offers and self.is_deferred(offers[name])]
        tools = self.toolbox.for_model([*kept, *loaded])
        self.names = tuple(tool.name for tool in tools)
        return tools

    def note(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Load what was found, and what was called without being loaded."""
        for outcome in outcomes if self.groups else ():
            self.load(gate.deferred.found_by(outcome))

    def load(self, names: Iterable[str]) -> None:
        offers = self.toolbox.offers
        self._loaded.update((name, None) for name in names if name in offers and self.is_deferred(offers[name]))

    def is_deferred(self, offer: Offer) -> bool:
        """Was it deferred, whether or not it is loaded by now?"""
        return bool(self.groups) and group_of(offer) in self.groups

    @property
    def _fit(self) -> bool:
        """Do all definitions fit? A session that is repeated offers what was offered then."""
        if self.recorded is not None:
            return FIND_TOOLS not in self.recorded or bool(self.groups)
        offers = [offer for offer in self.toolbox.offers.values() if not self.is_deferred(offer)]
        return sum(offer.tokens for offer in offers if self.toolbox.for_model([offer])) <= self.room.tokens


def group_of(offer: Offer) -> Group:
    """The group that is deferred together: the tools of a toolset from one kind of source, or of one server."""
    source = offer.tool.source or OWN
    return offer.toolset, source.origin if offer.toolset == SERVERS else source.kind
