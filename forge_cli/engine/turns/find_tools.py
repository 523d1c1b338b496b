"""``find_tools``, by which a model loads tools whose definitions were deferred."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Annotated

from pydantic import Field

from forge_cli.core.approval import Approval
from forge_cli.core.errors import ToolError
from forge_cli.core.results import Json
from forge_cli.core.text import cut
from forge_cli.engine.gate.offer import FIND_TOOLS, SERVERS, Group, Offer, text_tokens
from forge_cli.engine.gate.toolbox import Toolbox
from forge_cli.schema.tool import Tool, tool
from forge_cli.schema.toolset import Toolset

MAX_FOUND = 10
"""Definitions that one search loads."""
MIN_LIST_TOKENS = 1_000
"""Tokens that the names of deferred tools may take, however little room there is."""
MAX_LINE = 120
"""Characters of the description of a deferred tool."""

# Splits camelCase and runs of capitals, and keeps the words of other scripts.
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")


class FindTools(Toolset):
    """The toolset with the one tool that loads others."""

    name = FIND_TOOLS

    def __init__(self, toolbox: Toolbox, groups: Collection[Group], room: int) -> None:
        """Offer the tools of deferred ``groups``; definitions may take ``room`` tokens in all."""
        super().__init__()
        self._toolbox = toolbox
        self._groups = groups
        self._room = room

    @property
    def deferred(self) -> list[Tool]:
        """The tools that the model may call, but whose definitions are not loaded."""
        return self._toolbox.for_model(self._deferred_offers())

    def _deferred_offers(self) -> list[Offer]:
        return [offer for offer in self._toolbox.offers.values() if offer.group in self._groups]

    @tool(
        description="Load tools whose definitions are not loaded yet, by their names or by words "
        f"that say what is needed. At most {MAX_FOUND} are loaded at once; they can be called from "
        "then on.",
        needs_approval=Approval.PRE_APPROVED,
        read_only=True,
    )
    async def find_tools(
        self,
        query: Annotated[
            str, Field(description="Names of tools, or words that say what is needed")
        ],
    ) -> Json:
        found = self.find(query)
        if not found:
            raise ToolError(
                f"no tool that could be loaded fits {query!r}; try other words, or a name"
            )
        loaded = [{"name": each.name, "description": _one_line(each)} for each in found]
        return Json({"loaded": loaded})

    def find(self, query: str) -> list[Tool]:
        """Return the deferred tools that a query names or describes, the best first."""
        wanted = set(re.split(r"[\s,]+", query))
        tools = self.deferred
        if named := [tool for tool in tools if tool.name in wanted]:
            return named[:MAX_FOUND]
        return _rank(set(_words(query)), tools)

    def instructions(self) -> str | None:
        """Return the list for the system prompt, with as much about each tool as fits."""
        room = max(MIN_LIST_TOKENS, self._room // 4)
        lines = [f"- {tool.name}: {_one_line(tool)}" for tool in self.deferred]
        most = len(lines)
        while most and text_tokens("\n".join(lines)) > room:
            # first the names alone, then half as many names in each round
            lines = self._names(most)
            most //= 2
        heading = (
            "These tools exist, but their definitions are not loaded; "
            f"load those you need with {FIND_TOOLS}:"
        )
        return "\n".join([heading, *lines])

    def _names(self, most: int) -> list[str]:
        """Return the names alone, at most so many of each group."""
        offers = self._deferred_offers()
        lines: list[str] = []
        for group in dict.fromkeys(offer.group for offer in offers):
            own = [offer for offer in offers if offer.group == group]
            names = [tool.name for tool in self._toolbox.for_model(own)]
            lines += [f"- {name}" for name in names[:most]]
            if left := len(names[most:]):
                title = group[1] if group[0] == SERVERS else group[0]
                lines.append(f"- and {left:,} more of {title}")
        return lines


def _one_line(tool: Tool) -> str:
    return cut(tool.description.strip().partition("\n")[0], MAX_LINE, "end")


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(text)]


def _rank(words: set[str], tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that fit best, down to half of the best score; rare words count more."""
    scores = dict.fromkeys(range(len(tools)), 0.0)
    known = [(set(_words(tool.name)), set(_words(tool.description))) for tool in tools]
    for word in sorted(words):
        fits: dict[int, float] = {}
        for index, (name, description) in enumerate(known):
            # a word of the name counts more than one of the description
            if fit := 4 * _closeness(word, name) + _closeness(word, description):
                fits[index] = fit
        for index, fit in fits.items():
            scores[index] += fit * math.log(1 + len(tools) / len(fits))
    best = max(scores.values(), default=0.0)
    if not best:
        return []
    ranked = sorted(scores, key=lambda index: -scores[index])
    return [tools[index] for index in ranked[:MAX_FOUND] if scores[index] >= best / 2]


def _closeness(word: str, known: set[str]) -> float:
    if word in known:
        return 1.0
    # Short words are the beginning of too many others.
    alike = (each for each in known if min(len(word), len(each)) > 3)
    return 0.5 if any(each.startswith(word) or word.startswith(each) for each in alike) else 0.0
