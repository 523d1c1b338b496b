"""The calls that a resumed session was left with, each of which is settled once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from forge_cli.core.calls import ToolCall, call_identity
from forge_cli.core.wire import jsonable

if TYPE_CHECKING:
    from forge_cli.record.resume import Past, Pending


class ResumedCalls:
    """The calls that a session was left with; each of them is settled once, by one of the ``take`` methods."""

    def __init__(
        self,
        past: Past | None = None,
        redact: Callable[[Any], Any] = lambda value: value,
        parent: ResumedCalls | None = None,
    ) -> None:
        """Those that may have run are the same for all workers of a session: ``parent`` has them."""
        self._pending = dict(past.pending) if past else {}
        self._approved = set(past.consented) if past else set()
        self._cut_off: set[str] = set()
        if parent:
            self._cut_off = parent._cut_off
        elif past:
            self._cut_off = set(past.in_flight)
        self._redact = redact

    def knows(self, call: ToolCall) -> bool:
        """Was it taken up before?"""
        return call.id in self._pending or call.id in self._approved

    def was_refused(self, call: ToolCall) -> bool:
        """Did somebody say no in the meantime? Then no policy makes it a yes."""
        pending = self._pending.get(call.id)
        return pending is not None and pending.answer is not None and not pending.answer.approved

    def may_have_run(self, call: ToolCall) -> bool:
        """Was a call with these arguments cut off while it ran?"""
        return bool(self._cut_off) and self._identity(call) in self._cut_off

    def take_pending(self, call: ToolCall) -> Pending | None:
        """The request that was left open, with its answer if there is one; it is asked for once."""
        return self._pending.pop(call.id, None)

    def take_approval(self, call: ToolCall) -> bool:
        """Was the call approved before, and waits for a child worker? Then it needs no second decision."""
        if call.id not in self._approved:
            return False
        self._approved.remove(call.id)
        return True

    def start(self, call: ToolCall) -> None:
        """The call is executed now, so the result of the one before no longer matters."""
        if self._cut_off:
            self._cut_off.discard(self._identity(call))

    def _identity(self, call: ToolCall) -> str:
        """Calls are compared with what the record kept of them."""
        return call_identity(call.name, self._redact(jsonable(call.args)))
