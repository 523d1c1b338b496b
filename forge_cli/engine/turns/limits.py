"""Limits of a task: what a worker and its children may use, and calls that make no progress."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import asdict

from forge_cli.core.bounds import SHUTDOWN_GRACE, begin, end
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ExitCode, ForgeError, ModelError
from forge_cli.core.interrupt import Ended, Interrupted, InterruptSignal
from forge_cli.core.messages import Delta, Restart, TextDelta, Usage
from forge_cli.core.text import counted
from forge_cli.files.worker import DEFAULT_MAX_TURNS, Limits

if TYPE_CHECKING:
    from forge_cli.core.calls import ToolOutcome
    from forge_cli.files.settings import DayLimits
    from forge_cli.record.spent import DayLedger

MAX_REPEATS = 3
MIN_TURNS = 3
"""Turns before the cost of one can be unusual."""
UNUSUAL = 3
"""The multiple of the median at which the cost of a turn is unusual."""
MAX_ANSWER_CHARACTERS = 32 * 2**20
"""The length of one answer of any model, in characters."""
OUT_OF_TIME = "out of time"
"""The reason of an interrupt by a time limit."""
UNLISTED = frozenset({"script"})
"""Providers that no price table lists, so that none is loaded for them."""


class Price(Protocol):
    """The cost of one model's tokens."""

    def cost(self, usage: Usage) -> float | None:
        """Return the cost of one turn in dollars, or None if it is unknown."""
        ...


class AnswerRoom:
    """The length that one answer of a model has left, with text and arguments of calls."""

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._left = MAX_ANSWER_CHARACTERS

    def take(self, delta: Delta) -> None:
        """Subtract a piece; raise ModelError if the answer is too long."""
        match delta:
            case TextDelta(text=text):
                self._left -= len(text)
            case ToolCall(args=args, unreadable=unreadable):
                self._left -= len(unreadable or "") + len(json.dumps(args, default=str))
            case Restart():
                self._left = MAX_ANSWER_CHARACTERS
            case _:
                pass
        if self._left < 0:
            limit = f"{MAX_ANSWER_CHARACTERS >> 20} MiB"
            problem = f"{self._model_name}: the answer is longer than {limit}"
            raise ModelError(problem, hint="ask for smaller parts, or for files")


class LimitReached(Ended):
    """Raised if a limit ends the task, or if the last answer has exceeded one."""

    status = "limit"
    exit_code = ExitCode.LIMIT


class OpeningTooLong(ForgeError):
    """Raised if the time is over before the task begins."""

    exit_code = ExitCode.LIMIT


def stated(*limits: Limits) -> Limits:
    """Return the smallest value of each limit."""
    smallest: dict[str, Any] = {}
    for name in Limits.model_fields:
        values = [value for each in limits if (value := getattr(each, name)) is not None]
        smallest[name] = min(values, default=None)
    return Limits.model_validate(smallest)


def merged(*limits: Limits) -> Limits:
    """Return the smallest limits, with the default limit of turns if none is stated."""
    found = limits[0] if len(limits) == 1 else stated(*limits)
    if found.max_turns:
        return found
    return found.model_copy(update={"max_turns": DEFAULT_MAX_TURNS})


def tokens_of(usage: Usage) -> int:
    """Return the tokens that count for ``max_tokens``: all sent and received, cached or not."""
    return sum(asdict(usage).values())


@dataclass(eq=False)
class DayBudget:
    """The limits of all sessions of a home for one day, and the file with their use."""

    limits: DayLimits
    ledger: DayLedger

    def check(self) -> None:
        """Raise LimitReached if nothing is left for today."""
        used = self.ledger.today()
        limits = self.limits
        if limits.tokens is not None and used.tokens >= limits.tokens:
            limit = counted(limits.tokens, "token")
            raise LimitReached(f"the limit of {limit} a day was reached ({used.tokens:,} today)")
        if limits.cost is not None and used.cost >= limits.cost:
            spent = _dollars(round(used.cost, 4))
            limit = _dollars(limits.cost)
            raise LimitReached(f"the limit of {limit} a day was reached ({spent} today)")

    def spend(self, usage: Usage, cost: float | None) -> None:
        """Note the use of a turn."""
        self.ledger.add(tokens_of(usage), cost)


class CostWatch:
    """Notices a turn that costs much more than the turns before it."""

    def __init__(self) -> None:
        self._costs: list[float] = []

    def note(self, cost: float | None) -> str | None:
        """Note the cost of a turn; return a warning if it is unusual."""
        if not cost:
            return None
        before = sorted(self._costs)
        self._costs.append(cost)
        if len(before) < MIN_TURNS:
            return None
        median = before[len(before) // 2]
        if cost < UNUSUAL * median:
            return None
        usual = _dollars(round(median, 4))
        return f"this turn cost {_dollars(round(cost, 4))}; the median of this session is {usual}"


@dataclass(eq=False)
class Budget:
    """The limits of one task, and its use.

    The use of a child worker also counts in the budgets of its parents. Only the default limit of
    turns is each worker's own.
    """

    limits: Limits
    price: Price | None
    """The price of the worker's model; if it is None, the cost of the task is unknown."""
    parent: Budget | None = None
    clock: Callable[[], float] = time.monotonic
    worker: str = ""
    """The name of the worker, for messages that another worker shows."""
    pool: Budget | None = None
    """The common budget of several tasks, including this one."""
    day: DayBudget | None = None
    """The budget of all sessions of this home today; None if there is no limit."""
    turns: int = field(default=0, init=False)
    child_turns: int = field(default=0, init=False)
    usage: Usage = field(default=Usage(), init=False)

    def __post_init__(self) -> None:
        outer = self.parent or self.pool
        self._outer: tuple[Budget, ...] = outer.chain if outer else ()
        self._turns_stated = self.limits.max_turns is not None
        self.limits = merged(self.limits)
        self._began = self.clock()
        self._known_cost = 0.0
        # None before the first turn; False for good once the cost of a turn is unknown.
        self._priced: bool | None = None

    @property
    def chain(self) -> tuple[Budget, ...]:
        """This budget, and all budgets in which it counts."""
        return (self, *self._outer)

    @property
    def cost(self) -> float | None:
        """Dollars, with child workers; None before a turn has ended, or if a part is unknown."""
        return self._known_cost if self._priced else None

    @property
    def is_spent(self) -> bool:
        """True if no tokens, dollars or time are left."""
        try:
            self._check(self)
        except LimitReached:
            return True
        return False

    def start_turn(self) -> None:
        """Count a turn that is about to begin; raise LimitReached if nothing is left for it."""
        for budget in self.chain:
            budget._check_turns(self)
            budget._check(self)
        for outer in self._outer:
            outer.child_turns += 1
        self.turns += 1

    def spend(self, usage: Usage) -> float | None:
        """Count the use of a turn here and in all parents, and return its cost if known."""
        cost = self.price.cost(usage) if self.price else None
        for budget in self.chain:
            if budget.day:
                budget.day.spend(usage, cost)
            budget.usage += usage
            budget._known_cost += cost or 0.0
            budget._priced = budget._priced is not False and cost is not None
        return cost

    def check_last_turn(self) -> None:
        """Raise LimitReached if the last turn, which gave the answer, has exceeded a limit.

        A turn does not begin if nothing is left, but its use is known only at its end. The answer
        of a child worker counts all the same, because its parent takes no further turn.
        """
        limits = self.limits
        if self.parent is not None:
            return
        if limits.max_tokens is not None and tokens_of(self.usage) > limits.max_tokens:
            raise _passed(counted(limits.max_tokens, "token"), f"{tokens_of(self.usage):,}")
        if limits.max_cost is not None and self._known_cost > limits.max_cost:
            raise _passed(_dollars(limits.max_cost), _dollars(round(self._known_cost, 6)))

    def seconds_left(self) -> float | None:
        """Return the shortest time left in the chain, or None without a time limit."""
        last = self._first_to_end()
        return None if last is None else last._left()

    def out_of_time(self) -> LimitReached:
        """Return the error for a task whose ``seconds_left`` are over."""
        last = self._first_to_end() or self
        return self._reached(counted(last.limits.max_time or 0, "second"), last)

    def _check_turns(self, reader: Budget) -> None:
        limit = self.limits.max_turns
        taken = self.turns
        if self._turns_stated:
            taken += self.child_turns
        elif reader is not self:
            return
        if limit is not None and taken >= limit:
            raise reader._reached(counted(limit, "turn"), self)

    def _check(self, reader: Budget) -> None:
        if self.day:
            self.day.check()
        limits = self.limits
        if limits.max_tokens is not None and tokens_of(self.usage) >= limits.max_tokens:
            raise reader._reached(counted(limits.max_tokens, "token"), self)
        if limits.max_cost is not None and self._known_cost >= limits.max_cost:
            raise reader._reached(_dollars(limits.max_cost), self)
        if self._left() == 0:
            raise reader._reached(counted(limits.max_time or 0, "second"), self)

    def _left(self) -> float:
        limit = self.limits.max_time
        if limit is None:
            return math.inf
        return max(0.0, self._began + limit - self.clock())

    def _first_to_end(self) -> Budget | None:
        timed = [budget for budget in self.chain if budget.limits.max_time is not None]
        return min(timed, key=Budget._left, default=None)

    def _reached(self, limit: str, owner: Budget) -> LimitReached:
        whose = ""
        if owner is not self and owner.worker:
            whose = f" of the worker '{owner.worker}'"
        return LimitReached(f"the limit of {limit}{whose} was reached")


@asynccontextmanager
async def opening_deadline(limits: Limits) -> AsyncIterator[None]:
    """Apply the time limit to the opening of a worker."""
    seconds = limits.max_time
    with _forced_end_after(seconds):
        try:
            async with asyncio.timeout(seconds) as limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            reached = f"the limit of {counted(seconds or 0, 'second')} was reached before the start"
            raise OpeningTooLong(reached) from None


@contextmanager
def deadline(budget: Budget, signal: InterruptSignal) -> Iterator[None]:
    """Interrupt the body when the budget's time is over, and raise LimitReached for that."""
    seconds = budget.seconds_left()
    loop = asyncio.get_running_loop()
    timer = None if seconds is None else loop.call_later(seconds, signal.interrupt, OUT_OF_TIME)
    # A forced end would take the other tasks of the process with it.
    is_alone = budget.parent is None and budget.pool is None
    try:
        with _forced_end_after(seconds if is_alone else None):
            yield
    except Interrupted:
        if signal.reason == OUT_OF_TIME:
            raise budget.out_of_time() from None
        raise
    finally:
        if timer is not None:
            timer.cancel()


@contextmanager
def _forced_end_after(seconds: float | None) -> Iterator[None]:
    """End the process some time after ``seconds``, if third-party code blocks the event loop."""
    if seconds is None:
        yield
        return
    section = begin("", seconds, grace=SHUTDOWN_GRACE, exit_code=ExitCode.LIMIT, why=OUT_OF_TIME)
    try:
        yield
    finally:
        end(section)


def _passed(limit: str, used: str) -> LimitReached:
    return LimitReached(f"the last turn exceeded the limit of {limit} ({used}); its answer is kept")


def _dollars(amount: float) -> str:
    # A limit such as $0.005 would be $0.01 or $0.00 in cents.
    cents = f"{amount:,.2f}"
    if float(cents.replace(",", "")) == amount:
        return f"${cents}"
    return f"${amount:g}"


class Repeats:
    """A check for tasks without progress: refused calls repeated, or turns without a valid call."""

    def __init__(self) -> None:
        self._refused: Counter[tuple[str, str]] = Counter()
        self._invalid_turns = 0

    def note(self, outcomes: Sequence[ToolOutcome]) -> None:
        """Note the outcomes of one turn; raise LimitReached if they show no progress."""
        for outcome in outcomes:
            if outcome.status in ("denied", "blocked"):
                self._note_refusal(outcome)
        invalid = bool(outcomes) and all(
            each.status == "invalid" or each.call.unreadable for each in outcomes
        )
        if invalid:
            self._invalid_turns += 1
        else:
            self._invalid_turns = 0
        if self._invalid_turns == MAX_REPEATS:
            last = outcomes[-1].error
            raise LimitReached(f"three turns in a row made no valid call; the last: {last}")

    def _note_refusal(self, outcome: ToolOutcome) -> None:
        call = outcome.call
        key = call.name, json.dumps(call.args, sort_keys=True)
        self._refused[key] += 1
        if self._refused[key] == MAX_REPEATS:
            sentence = f"{call.name} was {outcome.status} three times with the same arguments"
            raise LimitReached(f"{sentence}: {outcome.error}" if outcome.error else sentence)
