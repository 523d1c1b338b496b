"""How a batch stands, in numbers, and what it tells while it runs: what the engine says and the screens show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from forge_cli.core.errors import ExitCode
from forge_cli.core.messages import Usage
from forge_cli.core.wire import JsonObject, both_spellings

ItemState = Literal["completed", "failed", "parked", "interrupted"]
BatchEventType = Literal["batchStart", "itemStarted", "itemFinished", "batchEnd"]


@dataclass
class BatchCounts:
    """Items by their state; what is not begun, or was interrupted, is ``waiting``."""

    total: int = 0
    completed: int = 0
    failed: int = 0
    parked: int = 0
    running: int = 0

    @property
    def waiting(self) -> int:
        return max(0, self.total - self.completed - self.failed - self.parked - self.running)

    def add(self, state: ItemState, number: int = 1) -> None:
        if state != "interrupted":
            setattr(self, state, getattr(self, state) + number)

    def wire(self) -> JsonObject:
        return {**asdict(self), "waiting": self.waiting}

    def exit_code(self, *, spent: bool) -> ExitCode:
        """Of the whole batch; ``spent`` says that nothing is left of its budget."""
        if spent and self.waiting:
            return ExitCode.LIMIT
        if self.failed or self.waiting:
            return ExitCode.FAILED
        return ExitCode.PARKED if self.parked else ExitCode.DONE


@dataclass
class Spending:
    """The usage of items, as their results say."""

    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    """In dollars; None where a part of it is unknown, and as long as nothing is known of any."""
    unknown: bool = False
    """Whether something was used whose cost is not known."""

    @property
    def tokens(self) -> int:
        return sum(vars(self.usage).values())

    def add(self, result: Mapping[str, Any]) -> None:
        used, cost = result.get("usage") or {}, result.get("cost")
        usage = Usage(**{name: used.get(name, 0) for name in vars(Usage())})
        self.usage += usage
        self.unknown = self.unknown or (cost is None and usage != Usage())
        if cost is not None or self.unknown:
            self.cost = None if self.unknown else (self.cost or 0.0) + (cost or 0.0)


@dataclass(frozen=True)
class BatchEvent:
    """Something that happened in a batch; ``counts`` is how it stands since."""

    type: BatchEventType
    counts: BatchCounts
    spending: Spending
    key: str | None = None
    session: str | None = None
    attempt: int | None = None
    result: Mapping[str, Any] | None = None
    retry_in: float | None = None
    """Seconds until an item that failed is tried again."""
    exit_code: int | None = None

    def wire(self) -> JsonObject:
        """A line of ``--json``."""
        found: JsonObject = {"type": self.type}
        named: JsonObject = {
            "key": self.key,
            "session_id": self.session,
            "attempt": self.attempt,
            "result": self.result,
        }
        named |= {"retry_in": self.retry_in, "exit_code": self.exit_code}
        found |= {name: value for name, value in named.items() if value is not None}
        usage = both_spellings(vars(self.spending.usage))
        return both_spellings({**found, "counts": self.counts.wire(), "usage": usage, "cost": self.spending.cost})
