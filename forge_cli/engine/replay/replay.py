"""Replay: a record in the place of the model, and at the gate, where what was is compared with what is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, product
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from forge_cli.core.approval import Approval, Verdict
from forge_cli.core.calls import ToolCall, ToolOutcome, call_identity
from forge_cli.core.errors import ForgeError, Mark, ModelError
from forge_cli.core.events import ToolStarted
from forge_cli.core.messages import Delta, Message, ModelRequest, TextDelta
from forge_cli.core.phrases import has_mark
from forge_cli.core.results import Diff, shown_files
from forge_cli.engine.gate.steps import Judged
from forge_cli.engine.replay.drift import (
    Drift,
    Likeness,
    Told,
    described,
    differences,
    now_possible,
    other_text,
    other_verdict,
)
from forge_cli.engine.replay.recording import RecordedCall, RecordedPart, RecordedTurn, Track
from forge_cli.record.line import Line
from forge_cli.sandbox.zones.zones import DEFAULT_ZONE

FROM_THE_LOG = ("denied", "interrupted", "timeout")
"""Results that a second try would not give again, or must not."""


class Tools(Enum):
    """The calls that run when a session is repeated; the results of the others are taken from the log."""

    READ_ONLY = "read-only"
    LIVE = "live"
    RECORDED = "recorded"


class EndOfRecord(ForgeError):
    """Nothing more was recorded: the session was interrupted, reached a limit, or waits for somebody."""


@dataclass
class Course:
    """How it goes, from the root to every worker below; the first difference is the one that counts."""

    file: Path
    tools: Tools
    likeness: Likeness
    parts: int = 1
    """How many the record has."""
    drift: Drift | None = None
    end: EndOfRecord | None = None
    turns: int = 0
    ran: int = 0
    taken: int = 0
    unsure: int = 0
    """Results that could not be compared, because they depend on calls that did not run."""

    def go_on(self) -> None:
        if failure := self.drift or self.end:
            raise failure

    def lost(self, drift: Drift, turn: RecordedTurn, line: Line | None) -> Drift:
        self.drift = drift.at(Mark(str(self.file), line.seq if line else turn.seq), turn.number)
        return self.drift


@dataclass
class Replay:
    """One worker of a session that is repeated: it is its model, and stands beside its gate."""

    name: str
    part: RecordedPart
    course: Course
    track: Track
    context_window: int | None = None
    _place: int = 0
    _told: Told | None = None
    _looked: dict[str, set[PurePosixPath]] = field(default_factory=dict)
    _touched: set[PurePosixPath] = field(default_factory=set)

    keeps_ids: ClassVar[bool] = True

    @classmethod
    def of(cls, part: RecordedPart, course: Course, model: str) -> Replay:
        track = part.track()
        return cls(model, part, course, track, track.window)

    @property
    def _turn(self) -> RecordedTurn:
        return self.track.turns[self._place]

    @property
    def announcement(self) -> str:
        more = f" (the first of its {self.course.parts} parts)" if self.course.parts > 1 else ""
        return (
            f"the model is replayed from {self.course.file}{more}, and nothing leaves this machine"
        )

    @property
    def environment(self) -> str | None:
        """The environment that its worker was told: that of this machine would be another."""
        return self.track.environment

    @property
    def tools(self) -> tuple[str, ...]:
        """Those that were offered first: which of them were deferred depends on the window of the model then."""
        return self.track.tools

    @property
    def keeps_still(self) -> bool:
        """Must nothing on disk change?"""
        return self.course.tools is not Tools.LIVE

    @property
    def left(self) -> RecordedTurn | None:
        """The first turn that was not asked for."""
        return (
            self.track.turns[self._place + 1] if self._place + 1 < len(self.track.turns) else None
        )

    async def aclose(self) -> None:
        """Nothing is open."""

    def child(self, call: ToolCall, worker: str) -> Replay:
        """The record of a worker that a call starts."""
        self.course.go_on()
        given = self.track.given.get(call.id, [])
        found = next((entry for entry in given if entry[0] == worker), None)
        if found is None:
            sentence = f"{described(call)} gives a task to the worker '{worker}', which the record does not have"
            raise self._lost(Drift("turns", sentence))
        given.remove(found)
        track = self.part.track(found[1])
        return Replay(self.name, self.part, self.course, track, track.window)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """The next recorded turn, if it is asked for as it was then."""
        self.course.go_on()
        if self.left is None:
            raise self._beyond(request.messages)
        self._place += 1
        self._compare(self._turn, request)
        reply, end = self._turn.reply, self._turn.end
        if end is None and self.left is not None:
            raise ModelError(f"{self.name} could not take in so much", too_long=True)
        if reply is None or end is None:
            raise self._over()
        self.course.turns += 1
        if reply.text:
            yield TextDelta(reply.text)
        for call in reply.calls:
            yield call
        yield end

    def _beyond(self, messages: Sequence[Message]) -> ForgeError:
        """More is asked for than was recorded: drift, if the work was done then."""
        reply, end = self._turn.reply, self._turn.end
        if reply is None or end is None or reply.calls or end.stop != "end":
            return self._over()
        told = messages[-1].text if messages else ""
        drift = other_text(
            "turns",
            "the work was done after this turn, and now the model is asked once more",
            "",
            told,
        )
        return self._lost(Drift("turns", drift.message, now=drift.now))

    def _over(self) -> EndOfRecord:
        sentence = f"the record ends with turn {self._turn.number}, before the work is done"
        self.course.end = EndOfRecord(sentence)
        return self.course.end

    def _lost(self, drift: Drift, line: Line | None = None) -> Drift:
        return self.course.lost(drift, self._turn, line)

    def _compare(self, turn: RecordedTurn, request: ModelRequest) -> None:
        recorded = turn.request
        if recorded and (recorded.system is not None or recorded.specs is not None):
            self._told = Told(recorded.system or "", recorded.specs or ())
        for drift in differences(turn, self._told, request, self._came, self.course.likeness):
            raise self._lost(drift)

    @property
    def _came(self) -> set[str]:
        """Tools that were made during the session: without the calls that made them they may be missing."""
        if self.course.tools is Tools.LIVE:
            return set()
        offered = set(chain.from_iterable(turn.tools for turn in self.track.turns))
        return offered.difference(self.track.tools)

    def instead(self, judged: Judged) -> ToolOutcome | None:
        """The result to give instead of making a call; None lets it continue. Its verdict must be the recorded one."""
        self.course.go_on()
        call, known = judged.call, self._recorded(judged.call)
        if call.parent and not (known and _is_same(call, known.started)):
            sentence = (
                f"a tool calls {described(call)} in its turn, which the record does not have there"
            )
            raise self._lost(Drift("turns", sentence))
        if known is None:
            return None
        outcome = known.outcome(call)
        if not has_mark(call.args):
            self._judge(judged, known)
        if outcome is None and self.course.tools is Tools.LIVE and call.id in self.track.given:
            return None
        if outcome is None:
            raise self._over()
        places = {PurePosixPath(path.place) for path in judged.places}
        if self._runs(judged, outcome):
            self.course.ran += 1
            self._looked[call.id] = places
            return None
        self.course.taken += 1
        if not judged.offer.tool.read_only and outcome.status not in ("denied", "blocked"):
            self._touched |= places | _places(outcome.value.wire())
        return outcome

    def _recorded(self, call: ToolCall) -> RecordedCall | None:
        """The record of a call of the model; one that was never taken up ends the record."""
        if self._turn.reply and call.id in {each.id for each in self._turn.reply.calls}:
            return self._turn.calls.get(call.id, RecordedCall())
        return self._turn.calls.get(call.id)

    def _judge(self, judged: Judged, known: RecordedCall) -> None:
        verdict, ended = judged.verdict, known.ended
        if known.verdict:
            if drift := other_verdict(judged.call, known.verdict, verdict):
                raise self._lost(drift, known.decided)
        elif ended and ended.status not in ("success", "interrupted", *_by_preview(verdict)):
            raise self._lost(now_possible(judged.call, ended, verdict), known.result)

    def _runs(self, judged: Judged, outcome: ToolOutcome) -> bool:
        if judged.verdict.approval is Approval.BLOCKED:
            return True
        if (
            has_mark(judged.call.args)
            or outcome.status in FROM_THE_LOG
            or judged.call.id in self.track.failed
        ):
            return False
        match self.course.tools:
            case Tools.LIVE:
                return True
            case Tools.RECORDED:
                return False
            case Tools.READ_ONLY:
                return (
                    judged.offer.tool.read_only and judged.verdict.approval is Approval.PRE_APPROVED
                )

    def compared(self, outcome: ToolOutcome) -> ToolOutcome:
        """The text for the model: the recorded result, if the call came to the same.

        A difference is noted, so that the call has its result, and ends the work before anything else is done.
        """
        call, known = outcome.call, self._recorded(outcome.call)
        before = known.outcome(call) if known else None
        if (
            before is None
            or outcome.status == "interrupted"
            or self.course.drift
            or self.course.end
        ):
            return outcome
        recorded, now = before.text(), outcome.text()
        same_files = shown_files(before.value) == shown_files(outcome.value)
        if before.status == outcome.status and (
            (same_files and self.course.likeness.same(recorded, now)) or _same_file(before, outcome)
        ):
            return before
        if has_mark(call.args) or self._depends(call):
            self.course.unsure += 1
            return before
        what = f"{described(call)} gives another result"
        if outcome.status == "denied":
            what = f"{described(call)} was approved then, and is not now"
        if before.status != outcome.status:
            recorded, now = (
                f"{each.status}: {each.text()}".split("\n", 1)[0] for each in (before, outcome)
            )
        self._lost(other_text("result", what, recorded, now), known.result if known else None)
        return outcome

    def _depends(self, call: ToolCall) -> bool:
        """Does a call look at what an earlier one made, which did not run this time?"""
        if self.course.tools is Tools.LIVE:
            return False
        if not self._came.isdisjoint([call.name, *map(str, call.args.values())]):
            return True
        looked = self._looked.get(call.id) or _places(call.args)
        pairs = product(looked, self._touched)
        return any(
            place.is_relative_to(other) or other.is_relative_to(place) for place, other in pairs
        )


def _is_same(call: ToolCall, started: ToolStarted | None) -> bool:
    """Is an inner call the one that was made then? What held a secret cannot be compared."""
    if started is None or started.tool_name != call.name:
        return False
    return has_mark(started.args) or call_identity(call.name, call.args) == call_identity(
        call.name, started.args
    )


def _by_preview(verdict: Verdict) -> tuple[str, ...]:
    """A preview that failed, where a call asks, may have refused it before there was anything to decide."""
    return ("error",) if verdict.approval is Approval.ASK else ()


def _same_file(one: ToolOutcome, other: ToolOutcome) -> bool:
    """Was the same written to the same file? What stood there before is not the worker's doing."""
    match one.value, other.value:
        case Diff(path=path, modified=text), Diff(path=place, modified=content):
            return (path, text) == (place, content)
        case _:
            return False


def _places(value: Any) -> set[PurePosixPath]:
    """The paths that stand as such in an input or a result; a relative one means the default zone."""
    match value:
        case dict():
            named = (
                {PurePosixPath("/", DEFAULT_ZONE, value["path"])}
                if isinstance(value.get("path"), str)
                else set()
            )
            return named.union(*map(_places, value.values()))
        case list():
            return set().union(*map(_places, value))
        case _:
            return set()
