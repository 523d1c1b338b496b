"""Many tools: where their definitions would fill the window, most are only named until the model asks for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from forge_cli.core.approval import Approval
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.errors import ToolError, WorkerError
from forge_cli.core.results import Json
from forge_cli.core.source import Source
from forge_cli.core.text import cut
from forge_cli.engine.gate.offer import FIND_TOOLS, Offer, OfferedTools, text_tokens
from forge_cli.engine.gate.toolbox import OpenToolset
from forge_cli.schema.tool import Tool, tool
from forge_cli.schema.toolset import Toolset

SERVERS = "mcp"
"""The toolset whose tools are deferred before those of any other."""
OWN = Source("builtin", "forge")
MOST_FOUND = 10
"""Definitions that one search loads."""
SHORT_LIST = 1_000
"""Tokens that the names of deferred tools may take however little room there is."""
ONE_LINE = 120
"""Characters of the description of a tool that is only named."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")


class DeferredTools:
    """Decides which definitions the model reads; what it has loaded stays, after all that it knew from the beginning.

    Every tool can be called, loaded or not: a call passes the gate like any other, and loads its tool.
    """

    def __init__(self, offered: OfferedTools) -> None:
        """Keep what the model was offered, also where its group is deferred because others have come."""
        self.toolbox, self.room, self._tell = offered.toolbox, offered.room, offered.tell
        self._known, self._recorded = tuple(offered.recorded or offered.names), offered.recorded
        self._groups: set[tuple[str, str]] = set()
        self._loaded: dict[str, None] = {}

    async def start(self) -> None:
        """Decide before the first turn, so that the system prompt can name what is deferred."""
        if self._decide():
            await self.toolbox.refresh()

    async def refresh(self) -> list[Tool]:
        """The tools of the next turn; tools that came since may have to be deferred, too."""
        await self.toolbox.refresh()
        await self.start()
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
        begun, groups = bool(self._groups), self._choose_groups()
        if not groups:
            return False
        self._groups |= groups
        self._load(self._known)
        if begun:
            return False
        if FIND_TOOLS in self.toolbox.offers:
            problem = f"'{FIND_TOOLS}' of {self.toolbox.offers[FIND_TOOLS].toolset} has the name of forge's own tool"
            raise WorkerError(None, problem, hint="give its toolset a prefix")
        self.toolbox.toolsets.append(OpenToolset(FindTools(self), OWN, None))
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
    """The group that is deferred together: the tools of a toolset from one kind of source, or of one server."""
    source = offer.tool.source or OWN
    return offer.toolset, source.origin if offer.toolset == SERVERS else source.kind


class FindTools(Toolset):
    """The toolset with the one tool that loads others."""

    name = FIND_TOOLS

    def __init__(self, deferred: DeferredTools) -> None:
        super().__init__()
        self._deferred = deferred

    @tool(
        description="Load tools whose definitions are not loaded yet, by their names or by words that say what is "
        f"needed. At most {MOST_FOUND} are loaded at once; they can be called from then on.",
        needs_approval=Approval.PRE_APPROVED,
        read_only=True,
    )
    async def find_tools(
        self, query: Annotated[str, Field(description="Names of tools, or words that say what is needed")]
    ) -> Json:
        found = self.find(query)
        if not found:
            raise ToolError(f"no tool that could be loaded fits {query!r}; try other words, or a name")
        return Json({"loaded": [{"name": each.name, "description": _one_line(each)} for each in found]})

    def find(self, query: str) -> list[Tool]:
        """The deferred tools that a query names or describes, the best first."""
        wanted, words = set(re.split(r"[\s,]+", query)), set(_words(query))
        tools = self._deferred.deferred
        if named := [tool for tool in tools if tool.name in wanted]:
            return named[:MOST_FOUND]
        return _rank(words, tools)

    def instructions(self) -> str | None:
        """The text for the system prompt: the names of all, with as much about each as there is room for."""
        room = max(SHORT_LIST, self._deferred.room.tokens // 4)
        lines = [f"- {tool.name}: {_one_line(tool)}" for tool in self._deferred.deferred]
        most = len(lines)
        while most and text_tokens("\n".join(lines)) > room:
            lines, most = self._names(most), most // 2
        heading = f"These tools exist, but their definitions are not loaded; load those you need with {FIND_TOOLS}:"
        return "\n".join([heading, *lines])

    def _names(self, most: int) -> list[str]:
        """The names alone, of each group so many."""
        offers = [offer for offer in self._deferred.toolbox.offers.values() if self._deferred.is_deferred(offer)]
        lines: list[str] = []
        for group in dict.fromkeys(map(group_of, offers)):
            own = [offer for offer in offers if group_of(offer) == group]
            names = [tool.name for tool in self._deferred.toolbox.for_model(own)]
            lines += [f"- {name}" for name in names[:most]]
            if left := len(names[most:]):
                lines.append(f"- and {left:,} more of {group[1] if group[0] == SERVERS else group[0]}")
        return lines


def _one_line(tool: Tool) -> str:
    return cut(tool.description.strip().partition("\n")[0], ONE_LINE, "end")


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(text)]


def _rank(words: set[str], tools: Sequence[Tool]) -> list[Tool]:
    """Those that fit best, and at least half as well; a word that few of them have counts more than a common one."""
    scores = dict.fromkeys(range(len(tools)), 0.0)
    known = [(set(_words(tool.name)), set(_words(tool.description))) for tool in tools]
    for word in sorted(words):
        fits = {index: fit for index, pair in enumerate(known) if (fit := _fit(word, *pair))}
        for index, fit in fits.items():
            scores[index] += fit * math.log(1 + len(tools) / len(fits))
    best = max(scores.values(), default=0.0)
    ranked = sorted((index for index in scores if best and scores[index] >= best / 2), key=lambda index: -scores[index])
    return [tools[index] for index in ranked[:MOST_FOUND]]


def _fit(word: str, name: set[str], description: set[str]) -> float:
    """A word of a tool's name counts more than one of its description."""
    return 4 * _closeness(word, name) + _closeness(word, description)


def _closeness(word: str, known: set[str]) -> float:
    if word in known:
        return 1.0
    alike = (each for each in known if min(len(word), len(each)) > 3)
    return 0.5 if any(each.startswith(word) or word.startswith(each) for each in alike) else 0.0
