"""The open calls of a resumed session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from forge_cli.core.calls import ToolCall, call_identity
from forge_cli.core.wire import jsonable

if TYPE_CHECKING:
    from forge_cli.record.resume import Past, Pending


class ResumedCalls:
    """The open calls of a resumed session; each is settled once, by one of the ``take`` methods."""

    def __init__(
        self,
        past: Past | None = None,
        redact: Callable[[Any], Any] = lambda value: value,
        parent: ResumedCalls | None = None,
    ) -> None:
        """Make the calls of a worker, which share those that may have run with ``parent``."""
        self._pending = dict(past.pending) if past else {}
        self._approved = set(past.consented) if past else set()
        self._cut_off: set[str] = set()
        if parent:
            self._cut_off = parent._cut_off
        elif past:
            self._cut_off = set(past.in_flight)
        self._redact = redact

    def knows(self, call: ToolCall) -> bool:
        """Return True if the call started before the session was resumed."""
        return call.id in self._pending or call.id in self._approved

    def was_refused(self, call: ToolCall) -> bool:
        """Return True if the call was denied since; no policy turns that into a yes."""
        pending = self._pending.get(call.id)
        return pending is not None and pending.answer is not None and not pending.answer.approved

    def may_have_run(self, call: ToolCall) -> bool:
        """Return True if a call with these args was interrupted while it ran."""
        return bool(self._cut_off) and self._identity(call) in self._cut_off

    def take_pending(self, call: ToolCall) -> Pending | None:
        """Return the open request, with its answer if there is one; the next time return None."""
        return self._pending.pop(call.id, None)

    def take_approval(self, call: ToolCall) -> bool:
        """Return True if the call was approved and waits for a child worker."""
        if call.id not in self._approved:
            return False
        self._approved.remove(call.id)
        return True

    def start(self, call: ToolCall) -> None:
        """Forget that an identical call may have run, because the call is executed now."""
        if self._cut_off:
            self._cut_off.discard(self._identity(call))

    def _identity(self, call: ToolCall) -> str:
        """Return the identity of a call as recorded, without secrets."""
        return call_identity(call.name, self._redact(jsonable(call.args)))
