"""The tools that the model is offered; if their definitions are too long, most are deferred."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.errors import WorkerError
from forge_cli.core.messages import OwnWords, ToolSpec
from forge_cli.core.results import Json
from forge_cli.engine.gate.offer import BUILT_IN, FIND_TOOLS, SERVERS, Group, Offer, text_for_model
from forge_cli.engine.gate.toolbox import OpenToolset
from forge_cli.files.worker import DEFAULT_TOOL_SHARE
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.engine.gate.toolbox import Toolbox

DEFAULT_WINDOW = 128_000
"""Tokens of a window whose size is unknown."""


class ToolRoom(Struct, frozen=True):
    """The tokens that definitions may take: a share of a window."""

    share: float
    window: int

    @classmethod
    def of(cls, share: float | None, window: int | None) -> ToolRoom:
        return cls(DEFAULT_TOOL_SHARE if share is None else share, window or DEFAULT_WINDOW)

    @property
    def tokens(self) -> int:
        return int(self.share * self.window)

    def __str__(self) -> str:
        return f"{self.share:.0%} of a window of {self.window:,}"


def spec_of(tool: Tool) -> ToolSpec:
    """Return a tool as the model sees it."""
    words: OwnWords = "none"
    if tool.source is not None and tool.source.kind == "builtin":
        words = "schema" if tool.delegates else "all"  # a worker's purpose comes from its file
    return ToolSpec(tool.name, text_for_model(tool), tool.schema.json_schema, words)


class OfferedTools:
    """The tools of each turn: all of them, until they no longer fit; loaded ones stay.

    Every tool can be called, loaded or not. A call passes the gate like any other, and loads it.
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
        """``known`` are the last tools of a resumed session, ``recorded`` those of a replay."""
        self.toolbox = toolbox
        self.room = room
        self.tell = tell
        self.recorded = recorded
        self.names = tuple(recorded or known)
        """The tools whose definitions the model was given last."""
        self.groups: set[Group] = set()
        """The deferred groups of tools."""
        self._loaded: dict[str, None] = {}

    async def start(self) -> None:
        """Defer tools before the first turn, so that the system prompt can list them."""
        if not self._fit and self._defer():
            await self.toolbox.refresh()

    async def refresh(self) -> list[Tool]:
        """Return the tools of the next turn; new ones may have to be deferred, too."""
        await self.toolbox.refresh()
        await self.start()
        offers = self.toolbox.offers
        kept = [offer for offer in offers.values() if not self.is_deferred(offer)]
        loaded: list[Offer] = []
        for name in self._loaded:
            if name in offers and self.is_deferred(offers[name]):
                loaded.append(offers[name])
        tools = self.toolbox.for_model([*kept, *loaded])
        self.names = tuple(tool.name for tool in tools)
        return tools

    def note(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Load the tools that were found, or called without being loaded."""
        if self.groups:
            for outcome in outcomes:
                self.load(_requested_tools(outcome))

    def load(self, names: Iterable[str]) -> None:
        offers = self.toolbox.offers
        for name in names:
            if name in offers and self.is_deferred(offers[name]):
                self._loaded[name] = None

    def is_deferred(self, offer: Offer) -> bool:
        """Return True if the tool was deferred, whether or not it is loaded by now."""
        return offer.group in self.groups

    @property
    def _fit(self) -> bool:
        """True if all definitions fit; a replay offers what was offered before."""
        if self.recorded is not None:
            return FIND_TOOLS not in self.recorded or bool(self.groups)
        used = 0
        for offer in self.toolbox.offers.values():
            if not self.is_deferred(offer) and self.toolbox.for_model([offer]):
                used += offer.tokens
        return used <= self.room.tokens

    def _defer(self) -> bool:
        """Defer groups if necessary; return True if ``find_tools`` has just become necessary."""
        groups = self._choose_groups()
        if not groups:
            return False
        had_find_tools = bool(self.groups)
        self.groups |= groups
        # The model keeps the definitions that it had in the last turn.
        self.load(self.names)
        if had_find_tools:
            return False
        self._add_find_tools()
        return True

    def _add_find_tools(self) -> None:
        # pydantic describes its arguments, and few workers have enough tools to need it
        from forge_cli.engine.turns.find_tools import FindTools

        if FIND_TOOLS in self.toolbox.offers:
            owner = self.toolbox.offers[FIND_TOOLS].toolset
            problem = f"{owner} has a tool '{FIND_TOOLS}', which is the name of forge's own tool"
            raise WorkerError(None, problem, hint="give its toolset a prefix")
        toolset = FindTools(self.toolbox, self.groups, self.room.tokens)
        self.toolbox.toolsets.append(OpenToolset(toolset, BUILT_IN, None))
        self.tell(
            f"the definitions of the tools would take more than {self.room} tokens: "
            f"{len(toolset.deferred)} of them are deferred, and loaded by {FIND_TOOLS}"
        )

    def _choose_groups(self) -> set[Group]:
        """Return the groups to defer: servers first, the largest first, never built-in tools."""
        offers = [
            offer for offer in self.toolbox.offers.values() if self.toolbox.for_model([offer])
        ]
        if self.recorded is not None:
            return {offer.group for offer in offers if offer.tool.name not in self.recorded}
        sizes: dict[Group, int] = {}
        for offer in offers:
            sizes[offer.group] = sizes.get(offer.group, 0) + offer.tokens
        total = sum(size for group, size in sizes.items() if group not in self.groups)
        builtin = {
            offer.group
            for offer in offers
            if offer.tool.source and offer.tool.source.kind == BUILT_IN.kind
        }
        candidates = sizes.keys() - builtin - self.groups
        chosen: set[Group] = set()
        for group in sorted(candidates, key=lambda each: (each[0] != SERVERS, -sizes[each], each)):
            if total <= self.room.tokens:
                break
            chosen.add(group)
            total -= sizes[group]
        return chosen


def _requested_tools(outcome: ToolOutcome) -> list[str]:
    """Return the tools that the model asked for by a call."""
    if outcome.call.name == FIND_TOOLS and isinstance(outcome.value, Json) and outcome.ok:
        return [found["name"] for found in outcome.value.data["loaded"]]
    return [outcome.call.name]
