"""Limits at which work ends: what a tree of workers may use, and calls that lead nowhere."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

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

MAX_REPEATS = 3
LONGEST_ANSWER = 32 * 2**20
"""Characters of one answer of a model, all models alike; what goes over the wire around them does not count."""
OUT_OF_TIME = "out of time"
"""The reason of an interrupt that a limit of time gives."""
UNLISTED = frozenset({"script"})
"""Providers that no table of prices will ever know, so that none is loaded for them."""


class Price(Protocol):
    """The cost of one model's tokens."""

    def cost(self, usage: Usage) -> float | None:
        """The cost of one turn, in dollars; None when it is not known."""
        ...


class AnswerRoom:
    """The room that one answer of a model has left: text and arguments of calls, whichever provider they come from."""

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._left = LONGEST_ANSWER

    def take(self, delta: Delta) -> None:
        """ModelError where this is more than an answer may have."""
        match delta:
            case TextDelta(text=text):
                self._left -= len(text)
            case ToolCall(args=args, unreadable=unreadable):
                self._left -= len(unreadable or "") + len(json.dumps(args, default=str))
            case Restart():
                self._left = LONGEST_ANSWER
            case _:
                pass
        if self._left < 0:
            problem = f"{self._model_name}: the answer is longer than {LONGEST_ANSWER >> 20} MiB, the most that is read"
            raise ModelError(problem, hint="have it write in smaller parts, or into files")


class LimitReached(Ended):
    """The work ends here, although the model would continue; or it is done, and its answer took too much."""

    status = "limit"
    exit_code = ExitCode.LIMIT


class OpeningTooLong(ForgeError):
    """The time was over before the work could begin."""

    exit_code = ExitCode.LIMIT


def stated(*limits: Limits) -> Limits:
    """The smallest value of each limit."""
    found = {name: [getattr(each, name) for each in limits] for name in Limits.model_fields}
    smallest = {
        name: min((each for each in said if each is not None), default=None)
        for name, said in found.items()
    }
    return Limits.model_validate(smallest)


def merged(*limits: Limits) -> Limits:
    """The stated limits, and a limit of turns where none is stated."""
    found = limits[0] if len(limits) == 1 else stated(*limits)
    return found if found.max_turns else found.model_copy(update={"max_turns": DEFAULT_MAX_TURNS})


def tokens_of(usage: Usage) -> int:
    """The tokens of ``max_tokens``: all that was sent and received, also what the provider's cache knew or keeps."""
    return sum(asdict(usage).values())


@dataclass(eq=False)
class Budget:
    """The budget of one task, and its use.

    A child worker has a budget of its own, and what it uses counts in the budgets of all its parents as well.
    Only the limit of turns that is not stated is each worker's own.
    """

    limits: Limits
    price: Price | None
    """The price of the worker's model; None is unknown, and so is then the cost of the task."""
    parent: Budget | None = None
    clock: Callable[[], float] = time.monotonic
    worker: str = ""
    """Whose budget it is, for a sentence that is read by another one."""
    pool: Budget | None = None
    """The common budget of several tasks, this one among them."""
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
        self._priced: bool | None = None

    @property
    def chain(self) -> tuple[Budget, ...]:
        """This budget, and all that it counts in."""
        return (self, *self._outer)

    @property
    def cost(self) -> float | None:
        """In dollars, with that of child workers; None when a part of it is unknown, and before a turn has ended."""
        return self._known_cost if self._priced else None

    @property
    def is_spent(self) -> bool:
        """Is nothing left of the tokens or the dollars?"""
        try:
            self._check(self)
        except LimitReached:
            return True
        return False

    def start_turn(self) -> None:
        """Count a turn that is about to begin; LimitReached when nothing is left for it."""
        for budget in self.chain:
            budget._check_turns(self)
            budget._check(self)
        for outer in self._outer:
            outer.child_turns += 1
        self.turns += 1

    def spend(self, usage: Usage) -> float | None:
        """Count what a turn has used, here and all the way up; returns what it cost, where that is known."""
        cost = self.price.cost(usage) if self.price else None
        for budget in self.chain:
            budget.usage += usage
            budget._known_cost += cost or 0.0
            budget._priced = budget._priced is not False and cost is not None
        return cost

    def check_last_turn(self) -> None:
        """LimitReached when the turn that gave the answer has used more than there was.

        A turn is not begun where nothing is left, but how much it takes is known only at its end. A child worker may
        give its answer all the same: its parent takes no further turn.
        """
        limits = self.limits
        if self.parent is not None:
            return
        if limits.max_tokens is not None and tokens_of(self.usage) > limits.max_tokens:
            raise _passed(counted(limits.max_tokens, "token"), f"{tokens_of(self.usage):,}")
        if limits.max_cost is not None and self._known_cost > limits.max_cost:
            raise _passed(_dollars(limits.max_cost), _dollars(round(self._known_cost, 6)))

    def seconds_left(self) -> float | None:
        """How long the task may still take, by the shortest time in the chain; None when no time is stated."""
        last = self._first_to_end()
        return None if last is None else last._left()

    def out_of_time(self) -> LimitReached:
        """The error when ``seconds_left`` are over in the middle of something."""
        last = self._first_to_end() or self
        return self._reached(counted(last.limits.max_time or 0, "second"), last)

    def _check_turns(self, reader: Budget) -> None:
        limit, taken = self.limits.max_turns, self.turns
        if self._turns_stated:
            taken += self.child_turns
        elif reader is not self:
            return
        if limit is not None and taken >= limit:
            raise reader._reached(counted(limit, "turn"), self)

    def _check(self, reader: Budget) -> None:
        limits = self.limits
        if limits.max_tokens is not None and tokens_of(self.usage) >= limits.max_tokens:
            raise reader._reached(counted(limits.max_tokens, "token"), self)
        if limits.max_cost is not None and self._known_cost >= limits.max_cost:
            raise reader._reached(_dollars(limits.max_cost), self)
        if self._left() == 0:
            raise reader._reached(counted(limits.max_time or 0, "second"), self)

    def _left(self) -> float:
        limit = self.limits.max_time
        return math.inf if limit is None else max(0.0, self._began + limit - self.clock())

    def _first_to_end(self) -> Budget | None:
        timed = [budget for budget in self.chain if budget.limits.max_time is not None]
        return min(timed, key=Budget._left, default=None)

    def _reached(self, limit: str, owner: Budget) -> LimitReached:
        whose = f" of the worker '{owner.worker}'" if owner is not self and owner.worker else ""
        return LimitReached(f"the limit of {limit}{whose} was reached")


@asynccontextmanager
async def opening_deadline(limits: Limits) -> AsyncIterator[None]:
    """The limit of time holds for opening a worker, too."""
    seconds = limits.max_time
    with _forced_end_after(seconds):
        try:
            async with asyncio.timeout(seconds) as limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            reached = (
                f"the limit of {counted(seconds or 0, 'second')} was reached before the work began"
            )
            raise OpeningTooLong(reached) from None


@contextmanager
def deadline(budget: Budget, signal: InterruptSignal) -> Iterator[None]:
    """Interrupt what is done within when the time of the budget is over; that is a limit reached, not an interrupt."""
    seconds = budget.seconds_left()
    loop = asyncio.get_running_loop()
    timer = None if seconds is None else loop.call_later(seconds, signal.interrupt, OUT_OF_TIME)
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
    """Third-party code that holds the event loop does not hold it for ever, where forge owns the process."""
    if seconds is None:
        yield
        return
    section = begin("", seconds, grace=SHUTDOWN_GRACE, exit_code=ExitCode.LIMIT, why=OUT_OF_TIME)
    try:
        yield
    finally:
        end(section)


def _passed(limit: str, used: str) -> LimitReached:
    return LimitReached(
        f"the limit of {limit} was passed by the last turn ({used}); its answer is kept"
    )


def _dollars(amount: float) -> str:
    cents = f"{amount:,.2f}"
    return f"${cents}" if float(cents.replace(",", "")) == amount else f"${amount:g}"


class Repeats:
    """Ends work that goes in circles: a call that is refused again and again, or turns without one valid call."""

    def __init__(self) -> None:
        self._refused: Counter[tuple[str, str]] = Counter()
        self._invalid_turns = 0

    def note(self, outcomes: Sequence[ToolOutcome]) -> None:
        """Look at how the calls of one turn ended; LimitReached when continuing would lead nowhere."""
        for outcome in outcomes:
            if outcome.status in ("denied", "blocked"):
                self._note_refusal(outcome)
        invalid = bool(outcomes) and all(
            each.status == "invalid" or each.call.unreadable for each in outcomes
        )
        self._invalid_turns = self._invalid_turns + 1 if invalid else 0
        if self._invalid_turns == MAX_REPEATS:
            raise LimitReached(
                f"three turns in a row made no valid call; the last: {outcomes[-1].error}"
            )

    def _note_refusal(self, outcome: ToolOutcome) -> None:
        call = outcome.call
        key = call.name, json.dumps(call.args, sort_keys=True)
        self._refused[key] += 1
        if self._refused[key] == MAX_REPEATS:
            sentence = f"{call.name} was {outcome.status} three times with the same arguments"
            raise LimitReached(f"{sentence}: {outcome.error}" if outcome.error else sentence)
