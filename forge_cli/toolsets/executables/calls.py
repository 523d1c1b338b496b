"""Calls that a program makes: of the tools that its worker lists, as the tool that the program is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from forge_cli.core.calls import OutcomeStatus, ToolCall, ToolOutcome
from forge_cli.core.context import ToolContext
from forge_cli.core.events import ToolResult
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject


@dataclass(frozen=True)
class ProgramCalls:
    """Answers ``forge tools call`` inside of one program: first what a tool takes, then what a call of it gives."""

    names: Collection[str]
    context: ToolContext

    async def answer(self, request: JsonObject) -> JsonObject:
        name, args = str(request.get("tool")), request.get("args")
        if name not in self.names:
            sentence = f"{visible(name)} cannot be called by {self.context.tool}: toolsets.executables.calls lists "
            return self._refusal(name, "blocked", sentence + (", ".join(self.names) or "nothing"))
        schema = self.context.inner.schema(name) if self.context.inner else None
        if schema is None:
            return self._refusal(name, "not_found", f"there is no tool '{visible(name)}'")
        if not isinstance(args, dict):
            return {"schema": schema}
        return _result(await self.context.call(name, args))

    def _refusal(self, name: str, status: OutcomeStatus, sentence: str) -> JsonObject:
        return _result(ToolOutcome.failed(ToolCall(self.context.call_id, name, {}), status, sentence))


def _result(outcome: ToolOutcome) -> JsonObject:
    call, took = outcome.call, outcome.duration_ms
    event = ToolResult(call.id, call.name, outcome.status, outcome.value, took, outcome.error)
    return {"result": event.payload()}
