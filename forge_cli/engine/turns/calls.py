"""The calls of one turn: calls that only read run in parallel, all others in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import anyio

from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.interrupt import Parked
from forge_cli.core.phrases import COME_AGAIN, SKIPPED_AFTER_FAILURE, SKIPPED_CALL
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.steps import Caller, Judged

MAX_PARALLEL = 8
"""The most calls that only read and run at the same time."""
MAX_CALLS = 200
"""The most calls of one turn; the others are postponed without being judged."""
FAILURES = ("error", "timeout", "invalid", "not_found")
"""The outcomes that end the task if ``on_error`` is ``stop``; a refusal has its own setting."""


@dataclass(eq=False)
class Turn:
    """The calls of one turn; ``parked``, ``refused`` or ``failed`` is why the work must end."""

    guard: Guard
    stop_on_refusal: bool
    stop_on_failure: bool = False
    outcomes: list[ToolOutcome] = field(default_factory=list)
    parked: Parked | None = None
    waiting: int = 0
    """The number of calls that wait for an answer."""
    refused: ToolOutcome | None = None
    failed: ToolOutcome | None = None

    async def take(self, calls: Sequence[ToolCall], most: int = MAX_CALLS) -> None:
        queue = deque(calls[:most])
        while queue:
            beside = await self._beside(queue)
            if len(beside) > 1:
                for _ in beside:
                    queue.popleft()
                await self._together(beside)
            else:
                await self._take(queue.popleft(), beside[0] if beside else None)
        for call in calls[most:]:
            postponed = COME_AGAIN.format(most=MAX_CALLS)
            self.outcomes.append(self._skip(call) or self.guard.postpone(call, postponed))

    async def _beside(self, queue: deque[ToolCall]) -> list[Judged]:
        """Return the calls at the front that can run in parallel; none once the work must end."""
        if self.parked or self.refused or self.failed:
            return []
        found: list[Judged] = []
        for call in queue:
            # If a refusal ends the work, calls after a question may be unwanted: ask it alone.
            judged = await self.guard.judge_parallel(call, may_ask=not self.stop_on_refusal)
            if judged is None or (found and _limit(judged) != _limit(found[0])):
                break
            found.append(judged)
        return found

    async def _together(self, judged: Sequence[Judged]) -> None:
        outcomes: dict[int, ToolOutcome] = {}
        failures: list[Exception] = []
        limiter = anyio.CapacityLimiter(_limit(judged[0]))
        running: set[anyio.CancelScope] = set()

        async def take(index: int, each: Judged) -> None:
            async with limiter:
                if failures:
                    return
                if self.failed:
                    outcomes[index] = self.guard.skip(each.call, SKIPPED_AFTER_FAILURE)
                    return
                try:
                    with anyio.CancelScope() as scope:
                        running.add(scope)
                        outcomes[index] = await self.guard.call(each.call, Caller.MODEL, each)
                        # First, or a failed call would cancel itself below.
                        running.discard(scope)
                        self._check_failure(outcomes[index], running)
                    if scope.cancelled_caught:
                        outcomes[index] = self.guard.cut_off(each.call)
                except Parked as parked:
                    self._park(parked)
                except Exception as failure:  # raised below, outside of the exception group
                    failures.append(failure)

        async with anyio.create_task_group() as tasks:
            for index, each in enumerate(judged):
                tasks.start_soon(take, index, each)
        for index in sorted(outcomes):
            self._note(outcomes[index])
        if failures:
            raise failures[0]

    async def _take(self, call: ToolCall, judged: Judged | None) -> None:
        if skipped := self._skip(call):
            self._note(skipped)
        elif self.parked:
            if await self.guard.park(call):
                self.waiting += 1
        else:
            try:
                self._note(await self.guard.call(call, Caller.MODEL, judged))
            except Parked as parked:
                self._park(parked)

    def _skip(self, call: ToolCall) -> ToolOutcome | None:
        """Return the result of a call after one that ends the work; None if none did."""
        if self.refused:
            return self.guard.skip(call, SKIPPED_CALL)
        if self.failed:
            return self.guard.skip(call, SKIPPED_AFTER_FAILURE)
        return None

    def _check_failure(
        self, outcome: ToolOutcome, running: Iterable[anyio.CancelScope] = ()
    ) -> None:
        """Cancel the calls beside a failed one that ends the work."""
        if self.stop_on_failure and outcome.status in FAILURES:
            self.failed = self.failed or outcome
            for scope in running:
                scope.cancel()

    def _park(self, parked: Parked) -> None:
        self.parked = self.parked or parked
        self.waiting += 1

    def _note(self, outcome: ToolOutcome) -> None:
        self.outcomes.append(outcome)
        self._check_failure(outcome)
        if self.stop_on_refusal and (outcome.status in ("denied", "blocked") or outcome.denials):
            self.refused = self.refused or outcome


def _limit(judged: Judged) -> int:
    """Return how many calls like this one may run at the same time."""
    if judged.tool.read_only:
        return MAX_PARALLEL
    return judged.tool.parallel
