"""Inner calls: those that the tool of one call makes itself, each of them through the same gate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from forge_cli.core.calls import Denial, ToolCall, ToolOutcome
from forge_cli.core.errors import ToolError
from forge_cli.core.wire import JsonObject, jsonable
from forge_cli.engine.gate.judge import CallingTool
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.performing import CallClock, CallUnderway

DEEPEST = 3
"""How many tools may stand above an inner call."""

Take = Callable[[ToolCall, CallingTool], Awaitable[ToolOutcome]]


class ToolCalls:
    """The inner calls of one call; their ids are its own with a number, so that a replay finds them again."""

    def __init__(self, outer: CallUnderway, offers: Mapping[str, Offer], take: Take) -> None:
        """The clock of ``outer`` stands still meanwhile, as it does for a child worker."""
        self._outer = outer
        self._offers = offers
        self._take = take

    async def call(self, name: str, args: Mapping[str, Any]) -> ToolOutcome:
        outer, clock = self._outer, self._outer.clock
        if clock is None or clock.over:
            raise ToolError(f"{outer.call.name} is being stopped, so it calls no other tool")
        outer.made += 1
        call = ToolCall(f"{outer.call.id}.{outer.made}", str(name), jsonable(dict(args)), parent=outer.call.id)
        outcome = await self._take_within(call, clock)
        if outcome.status in ("denied", "blocked"):
            outer.denials.append(Denial(outcome.refusal, outcome.by or "rule"))
        outer.denials += outcome.denials
        return outcome

    async def _take_within(self, call: ToolCall, clock: CallClock) -> ToolOutcome:
        """Take the call, unless the outer one is stopped meanwhile."""
        above = self._outer.caller
        root, depth = (above.root, above.depth) if isinstance(above, CallingTool) else (above, 0)
        with clock.pause(), anyio.CancelScope() as scope:
            clock.inside.append(scope)
            try:
                return await self._take(call, CallingTool(self._outer.call.name, root, depth + 1))
            finally:
                clock.inside.remove(scope)
        raise asyncio.CancelledError

    def schema(self, name: str) -> JsonObject | None:
        offer = self._offers.get(name)
        return offer.tool.schema.json_schema if offer else None
