"""The tool by which a model loads the definitions of tools that are only named."""

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

MOST_FOUND = 10
"""Definitions that one search loads."""
SHORT_LIST = 1_000
"""Tokens that the names of deferred tools may take however little room there is."""
ONE_LINE = 120
"""Characters of the description of a tool that is only named."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")


class FindTools(Toolset):
    """The toolset with the one tool that loads others."""

    name = FIND_TOOLS

    def __init__(self, toolbox: Toolbox, groups: Collection[Group], room: int) -> None:
        """``groups`` are deferred, and more may be later; ``room`` is how many tokens definitions may take."""
        super().__init__()
        self._toolbox = toolbox
        self._groups = groups
        self._room = room

    @property
    def deferred(self) -> list[Tool]:
        """Those that the model may call, and reads no definition of until they are loaded."""
        return self._toolbox.for_model(self._deferred_offers())

    def _deferred_offers(self) -> list[Offer]:
        return [offer for offer in self._toolbox.offers.values() if offer.group in self._groups]

    @tool(
        description="Load tools whose definitions are not loaded yet, by their names or by words that say what is "
        f"needed. At most {MOST_FOUND} are loaded at once; they can be called from then on.",
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
        return Json(
            {"loaded": [{"name": each.name, "description": _one_line(each)} for each in found]}
        )

    def find(self, query: str) -> list[Tool]:
        """The deferred tools that a query names or describes, the best first."""
        wanted = set(re.split(r"[\s,]+", query))
        tools = self.deferred
        if named := [tool for tool in tools if tool.name in wanted]:
            return named[:MOST_FOUND]
        return _rank(set(_words(query)), tools)

    def instructions(self) -> str | None:
        """The text for the system prompt: the names of all, with as much about each as there is room for."""
        room = max(SHORT_LIST, self._room // 4)
        lines = [f"- {tool.name}: {_one_line(tool)}" for tool in self.deferred]
        most = len(lines)
        while most and text_tokens("\n".join(lines)) > room:
            lines, most = self._names(most), most // 2
        heading = f"These tools exist, but their definitions are not loaded; load those you need with {FIND_TOOLS}:"
        return "\n".join([heading, *lines])

    def _names(self, most: int) -> list[str]:
        """The names alone, of each group so many."""
        offers = self._deferred_offers()
        lines: list[str] = []
        for group in dict.fromkeys(offer.group for offer in offers):
            own = [offer for offer in offers if offer.group == group]
            names = [tool.name for tool in self._toolbox.for_model(own)]
            lines += [f"- {name}" for name in names[:most]]
            if left := len(names[most:]):
                lines.append(
                    f"- and {left:,} more of {group[1] if group[0] == SERVERS else group[0]}"
                )
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
    ranked = sorted(
        (index for index in scores if best and scores[index] >= best / 2),
        key=lambda index: -scores[index],
    )
    return [tools[index] for index in ranked[:MOST_FOUND]]


def _fit(word: str, name: set[str], description: set[str]) -> float:
    """A word of a tool's name counts more than one of its description."""
    return 4 * _closeness(word, name) + _closeness(word, description)


def _closeness(word: str, known: set[str]) -> float:
    if word in known:
        return 1.0
    alike = (each for each in known if min(len(word), len(each)) > 3)
    return 0.5 if any(each.startswith(word) or word.startswith(each) for each in alike) else 0.0
