"""``find_tools``: the tool with which a model loads definitions that were only named to it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forge_cli.core.approval import Approval
from forge_cli.core.errors import ToolError
from forge_cli.core.results import Json, ResultValue
from forge_cli.core.text import cut
from forge_cli.core.tool import Args
from forge_cli.engine.gate.deferred import SERVERS, group_of
from forge_cli.engine.gate.offer import text_tokens
from forge_cli.engine.gate.offered import FIND_TOOLS
from forge_cli.schema.tool import Tool
from forge_cli.schema.tool_fields import READ_ONLY
from forge_cli.schema.toolset import Toolset

if TYPE_CHECKING:
    from forge_cli.core.context import ToolContext
    from forge_cli.core.wire import JsonObject
    from forge_cli.engine.gate.deferred import DeferredTools

MOST_FOUND = 10
"""Definitions that one search loads."""
SHORT_LIST = 1_000
"""Tokens that the names of deferred tools may take however little room there is."""
ONE_LINE = 120
"""Characters of the description of a tool that is only named."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_A-Za-z]+")
_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "Names of tools, or words that say what is needed"}},
    "required": ["query"],
    "additionalProperties": False,
}


class FindTools(Toolset):
    """The toolset with the one tool that loads others."""

    name = FIND_TOOLS

    def __init__(self, deferred: DeferredTools) -> None:
        super().__init__()
        self._deferred = deferred
        self._tool = Tool(
            name=FIND_TOOLS,
            description=(
                "Load tools whose definitions are not loaded yet, by their names or by words that say what is needed. "
                f"At most {MOST_FOUND} are loaded at once; they can be called from then on."
            ),
            input_schema=_SCHEMA,
            execute=self._find,
            needs_approval=Approval.PRE_APPROVED,
            effects=READ_ONLY,
        )

    async def tools(self) -> Sequence[Tool]:
        return [self._tool]

    async def _find(self, args: Args, context: ToolContext) -> ResultValue:
        found = self.find(args["query"])
        if not found:
            raise ToolError(f"no tool that could be loaded fits {args['query']!r}; try other words, or a name")
        return Json({"loaded": [{"name": tool.name, "description": _one_line(tool)} for tool in found]})

    def find(self, query: str) -> list[Tool]:
        """The deferred tools that a query names or describes, the best first."""
        wanted, words = set(re.split(r"[\s,]+", query)), set(_words(query))
        tools = self._deferred.deferred
        if named := [tool for tool in tools if tool.name in wanted]:
            return named[:MOST_FOUND]
        return _rank(words, tools)

    def instructions(self) -> str | None:
        """What the system prompt says: the names of all, with as much about each as there is room for."""
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
