"""Many tools: where their definitions would fill the window, most are only named until the model asks for them."""

from __future__ import annotations

from collections.abc import Iterable

from forge_cli.core.calls import ToolOutcome
from forge_cli.core.errors import WorkerError
from forge_cli.core.results import Json
from forge_cli.core.source import Source
from forge_cli.engine import gate
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.offered import FIND_TOOLS, OfferedTools
from forge_cli.engine.gate.toolbox import OpenToolset
from forge_cli.schema.tool import Tool

SERVERS = "mcp"
"""The toolset whose tools are deferred before those of any other."""
OWN = Source("builtin", "forge")


class DeferredTools:
    """Decides which definitions the model reads; what it has loaded stays, after all that it knew from the beginning.

    Every tool can be called, loaded or not: a call passes the gate like any other, and loads its tool.
    """

    def __init__(self, offered: OfferedTools) -> None:
        """What the model was offered stays, also where its group is deferred because others have come."""
        self.toolbox, self.room, self._tell = offered.toolbox, offered.room, offered.tell
        self._known, self._recorded = tuple(offered.recorded or offered.names), offered.recorded
        self._groups: set[tuple[str, str]] = set()
        self._loaded: dict[str, None] = {}
        self._tools: list[Tool] = []
        self._state: tuple[int, int] | None = None
        """What ``_tools`` were chosen from: the same again as long as nothing came to it."""
        self._decided = -1
        """The ``changes`` of the toolbox that were looked at last."""

    async def start(self) -> None:
        """Decide before the first turn, so that the system prompt can name what is deferred."""
        if self._decide():
            await self.toolbox.refresh()

    async def refresh(self) -> list[Tool]:
        """The tools of the next turn; tools that came since may have to be deferred, too."""
        await self.toolbox.refresh()
        if self._state != (self.toolbox.changes, len(self._loaded)):
            await self.start()
            self._tools = self._choose_tools()
            self._state = self.toolbox.changes, len(self._loaded)
        return self._tools

    def _choose_tools(self) -> list[Tool]:
        offers = self.toolbox.offers
        kept = [offer for offer in offers.values() if not self.is_deferred(offer)]
        loaded = [offers[name] for name in self._loaded if name in offers and self.is_deferred(offers[name])]
        tools = self.toolbox.for_model([*kept, *loaded])
        self._known = tuple(tool.name for tool in tools)
        return tools

    def note(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Load what was found, and what was called without being loaded."""
        for outcome in outcomes if self._groups else ():
            if outcome.call.name == FIND_TOOLS and isinstance(outcome.value, Json) and outcome.ok:
                self._load(found["name"] for found in outcome.value.data["loaded"])
            else:
                self._load([outcome.call.name])

    @property
    def offered(self) -> tuple[str, ...]:
        """The tools whose definitions the model was given last."""
        return self._known

    def is_deferred(self, offer: Offer) -> bool:
        """Was it deferred, whether or not it is loaded by now?"""
        return group_of(offer) in self._groups

    @property
    def deferred(self) -> list[Tool]:
        """Those that the model may call, and reads no definition of until they are loaded."""
        return self.toolbox.for_model(offer for offer in self.toolbox.offers.values() if self.is_deferred(offer))

    def _load(self, names: Iterable[str]) -> None:
        offers = self.toolbox.offers
        self._loaded.update((name, None) for name in names if name in offers and self.is_deferred(offers[name]))

    def _decide(self) -> bool:
        """Defer what has to be; returns whether ``find_tools`` has just become necessary."""
        if self._decided == self.toolbox.changes:
            return False
        begun, groups, self._decided = bool(self._groups), self._choose_groups(), self.toolbox.changes
        if not groups:
            return False
        self._groups |= groups
        self._load(self._known)
        if begun:
            return False
        if FIND_TOOLS in self.toolbox.offers:
            problem = f"'{FIND_TOOLS}' of {self.toolbox.offers[FIND_TOOLS].toolset} has the name of forge's own tool"
            raise WorkerError(None, problem, hint="give its toolset a prefix")
        self.toolbox.toolsets.append(OpenToolset(gate.find_tools.FindTools(self), OWN, None))
        self._tell(
            f"the definitions of the tools would take more than {self.room} tokens: {len(self.deferred)} of them "
            f"are named only, and loaded by {FIND_TOOLS}"
        )
        return True

    def _choose_groups(self) -> set[tuple[str, str]]:
        """Those that have to be deferred from now on: servers first, the largest first, and never what is built in."""
        offers = [offer for offer in self.toolbox.offers.values() if self.toolbox.for_model([offer])]
        if self._recorded is not None:
            missing = {group_of(offer) for offer in offers if offer.tool.name not in self._recorded}
            return missing if FIND_TOOLS in self._recorded and not self._groups else set()
        sizes: dict[tuple[str, str], int] = {}
        for offer in offers:
            sizes[group_of(offer)] = sizes.get(group_of(offer), 0) + offer.tokens
        total = sum(size for group, size in sizes.items() if group not in self._groups)
        if total <= self.room.tokens:
            return set()
        builtin = {group_of(offer) for offer in offers if offer.tool.source and offer.tool.source.kind == OWN.kind}
        chosen: set[tuple[str, str]] = set()
        for group in sorted(
            sizes.keys() - builtin - self._groups, key=lambda each: (each[0] != SERVERS, -sizes[each], each)
        ):
            if total <= self.room.tokens:
                break
            chosen.add(group)
            total -= sizes[group]
        return chosen


def group_of(offer: Offer) -> tuple[str, str]:
    """What is deferred together: the tools of a toolset from one kind of source, or of one server."""
    source = offer.tool.source or OWN
    return offer.toolset, source.origin if offer.toolset == SERVERS else source.kind
