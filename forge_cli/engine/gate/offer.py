"""The tools that a worker offers, and those that a model reads definitions of: all, while they fit into its window."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from forge_cli.engine import gate
from forge_cli.engine.gate.policy import Policy
from forge_cli.files.worker import DEFAULT_TOOL_SHARE
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.engine.gate.deferred import DeferredTools
    from forge_cli.engine.gate.toolbox import Toolbox

FIND_TOOLS = "find_tools"
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


@dataclass(frozen=True)
class Offer:
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


@dataclass(frozen=True)
class ToolRoom:
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
    """The tools of each turn; from the moment on when they do not fit any more, ``DeferredTools`` chooses them."""

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
        self._known, self.recorded = tuple(known), recorded
        self._deferred: DeferredTools | None = None

    async def start(self) -> None:
        """Decide before the first turn, so that the system prompt can name what is deferred."""
        if self._deferred is None and not self._fit:
            self._deferred = gate.deferred.DeferredTools(self)
        if self._deferred:
            await self._deferred.start()

    async def refresh(self) -> list[Tool]:
        """The tools of the next turn."""
        await self.toolbox.refresh()
        if self._deferred is None:
            await self.start()
        if self._deferred:
            return await self._deferred.refresh()
        tools = self.toolbox.for_model(self.toolbox.offers.values())
        self._known = tuple(tool.name for tool in tools)
        return tools

    def note(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Load what was found, and what was called without being loaded."""
        if self._deferred:
            self._deferred.note(outcomes)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools whose definitions the model was given last."""
        return self._deferred.offered if self._deferred else self._known

    @property
    def _fit(self) -> bool:
        """Do all definitions fit? A session that is repeated offers what was offered then."""
        if self.recorded is not None:
            return FIND_TOOLS not in self.recorded
        offers = self.toolbox.offers.values()
        return sum(offer.tokens for offer in offers if self.toolbox.for_model([offer])) <= self.room.tokens
