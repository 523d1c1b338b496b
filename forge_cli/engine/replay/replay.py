"""Replay: a recording takes the place of the model, and the gate compares calls with it."""

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
    RecordedPrompt,
    described,
    differences,
    now_possible,
    other_text,
    other_verdict,
)
from forge_cli.engine.replay.recording import RecordedCall, RecordedPart, RecordedTurn, Track
from forge_cli.record.line import Line
from forge_cli.sandbox.zones.zones import DEFAULT_ZONE

NEVER_REPEATED = ("denied", "interrupted", "timeout")
"""Statuses of results that a second call would not give again, or that must not be repeated."""


class Tools(Enum):
    """The calls that run in a replay; the results of the others come from the log."""

    READ_ONLY = "read-only"
    LIVE = "live"
    RECORDED = "recorded"


class EndOfRecord(ForgeError):
    """The end of a recording whose session did not complete its task."""


@dataclass
class Course:
    """The state of a replay, shared by all workers; the first difference counts."""

    file: Path
    tools: Tools
    likeness: Likeness
    parts: int = 1
    """The number of parts of the recording."""
    drift: Drift | None = None
    end: EndOfRecord | None = None
    turns: int = 0
    ran: int = 0
    taken: int = 0
    unsure: int = 0
    """The number of results that depend on calls that did not run, so they are not compared."""

    def go_on(self) -> None:
        if failure := self.drift or self.end:
            raise failure

    def lost(self, drift: Drift, turn: RecordedTurn, line: Line | None) -> Drift:
        self.drift = drift.at(Mark(str(self.file), line.seq if line else turn.seq), turn.number)
        return self.drift


@dataclass
class Replay:
    """One worker of a replayed session: its model, and the recorded calls for its gate."""

    name: str
    part: RecordedPart
    course: Course
    track: Track
    context_window: int | None = None
    _place: int = 0
    _told: RecordedPrompt | None = None
    _looked: dict[str, set[PurePosixPath]] = field(default_factory=dict)
    """The paths of each call that was made again, by its ID."""
    _touched: set[PurePosixPath] = field(default_factory=set)
    """The paths that calls would have changed if they had been made again."""

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
        more = ""
        if self.course.parts > 1:
            more = f" (the first of its {self.course.parts} parts)"
        return f"replaying the model from {self.course.file}{more}; nothing leaves this machine"

    @property
    def environment(self) -> str | None:
        """The environment that its worker was given, instead of that of this machine."""
        return self.track.environment

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that were offered first; deferring depended on the context window then."""
        return self.track.tools

    @property
    def keeps_files(self) -> bool:
        """True if nothing on disk may change."""
        return self.course.tools is not Tools.LIVE

    @property
    def left(self) -> RecordedTurn | None:
        """The next recorded turn, or None."""
        following = self._place + 1
        if following < len(self.track.turns):
            return self.track.turns[following]
        return None

    async def aclose(self) -> None:
        """Do nothing, because nothing is open."""

    def child(self, call: ToolCall, worker: str) -> Replay:
        """Return the recording of a worker that a call starts."""
        self.course.go_on()
        given = self.track.given.get(call.id, [])
        found = next((entry for entry in given if entry[0] == worker), None)
        if found is None:
            sentence = (
                f"{described(call)} starts the worker '{worker}', which is not in the recording"
            )
            raise self._lost(Drift("turns", sentence))
        given.remove(found)
        track = self.part.track(found[1])
        return Replay(self.name, self.part, self.course, track, track.window)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the next recorded turn if its request is the recorded one."""
        self.course.go_on()
        if self.left is None:
            raise self._beyond(request.messages)
        self._place += 1
        self._compare(self._turn, request)
        reply = self._turn.reply
        end = self._turn.end
        if end is None and self.left is not None:
            # A turn without an end that is not the last: the provider refused it for its length.
            raise ModelError(f"the request was too long for {self.name}", too_long=True)
        if reply is None or end is None:
            raise self._over()
        self.course.turns += 1
        if reply.text:
            yield TextDelta(reply.text)
        for call in reply.calls:
            yield call
        yield end

    def _beyond(self, messages: Sequence[Message]) -> ForgeError:
        """Return the error for a turn that was not recorded: drift if the work was done."""
        reply = self._turn.reply
        end = self._turn.end
        if reply is None or end is None or reply.calls or end.stop != "end":
            return self._over()
        sentence = "the work was done after this turn, and now the model is asked once more"
        last = messages[-1].text if messages else ""
        return self._lost(Drift("turns", sentence, now=other_text("turns", "", "", last).now))

    def _over(self) -> EndOfRecord:
        sentence = f"the record ends with turn {self._turn.number}, before the work is done"
        self.course.end = EndOfRecord(sentence)
        return self.course.end

    def _lost(self, drift: Drift, line: Line | None = None) -> Drift:
        return self.course.lost(drift, self._turn, line)

    def _compare(self, turn: RecordedTurn, request: ModelRequest) -> None:
        recorded = turn.request
        if recorded and (recorded.system is not None or recorded.specs is not None):
            self._told = RecordedPrompt(recorded.system or "", recorded.specs or ())
        found = differences(turn, self._told, request, self._came, self.course.likeness)
        # Only the first one, because the others may follow from it.
        for drift in found:
            raise self._lost(drift)

    @property
    def _came(self) -> set[str]:
        """Tools that the session created; they may be missing if those calls did not run."""
        if self.course.tools is Tools.LIVE:
            return set()
        offered = set(chain.from_iterable(turn.tools for turn in self.track.turns))
        return offered.difference(self.track.tools)

    def instead(self, judged: Judged) -> ToolOutcome | None:
        """Return the result that replaces a call, or None to make it.

        Its verdict must be the recorded one.
        """
        self.course.go_on()
        call = judged.call
        known = self._recorded(call)
        if call.parent and not (known and _is_same(call, known.started)):
            sentence = f"a tool calls {described(call)}, which is not in the recording of this turn"
            raise self._lost(Drift("turns", sentence))
        if known is None:
            return None
        outcome = known.outcome(call)
        # With a redacted secret, the verdict on the args of then is unknown.
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
        """Return the record of a call; an empty one if the model made it but it never started."""
        if self._turn.reply and call.id in {each.id for each in self._turn.reply.calls}:
            return self._turn.calls.get(call.id, RecordedCall())
        return self._turn.calls.get(call.id)

    def _judge(self, judged: Judged, known: RecordedCall) -> None:
        verdict = judged.verdict
        ended = known.ended
        if known.verdict:
            if drift := other_verdict(judged.call, known.verdict, verdict):
                raise self._lost(drift, known.decided)
        elif ended and ended.status not in ("success", "interrupted", *_by_preview(verdict)):
            raise self._lost(now_possible(judged.call, ended, verdict), known.result)

    def _runs(self, judged: Judged, outcome: ToolOutcome) -> bool:
        approval = judged.verdict.approval
        if approval is Approval.BLOCKED:
            return True  # the gate refuses it without running anything
        if has_mark(judged.call.args) or outcome.status in NEVER_REPEATED:
            return False
        if judged.call.id in self.track.failed:
            return False
        match self.course.tools:
            case Tools.LIVE:
                return True
            case Tools.RECORDED:
                return False
            case Tools.READ_ONLY:
                return judged.offer.tool.read_only and approval is Approval.PRE_APPROVED

    def compared(self, outcome: ToolOutcome) -> ToolOutcome:
        """Return the recorded outcome if the results are the same, else the new one.

        A difference is noted. The call still gets its result, and the session ends before anything
        else is done.
        """
        call = outcome.call
        known = self._recorded(call)
        before = known.outcome(call) if known else None
        if before is None or outcome.status == "interrupted":
            return outcome
        if self.course.drift or self.course.end:
            return outcome
        if before.status == outcome.status and self._is_alike(before, outcome):
            return before
        if has_mark(call.args) or self._depends(call):
            self.course.unsure += 1
            return before
        what = f"{described(call)} gives another result"
        if outcome.status == "denied":
            what = f"{described(call)} was approved then, and is not now"
        recorded = before.text()
        now = outcome.text()
        if before.status != outcome.status:
            recorded = f"{before.status}: {recorded}".split("\n", 1)[0]
            now = f"{outcome.status}: {now}".split("\n", 1)[0]
        self._lost(other_text("result", what, recorded, now), known.result if known else None)
        return outcome

    def _is_alike(self, before: ToolOutcome, outcome: ToolOutcome) -> bool:
        if _same_file(before, outcome):
            return True
        same_files = shown_files(before.value) == shown_files(outcome.value)
        return same_files and self.course.likeness.same(before.text(), outcome.text())

    def _depends(self, call: ToolCall) -> bool:
        """Return True if a call depends on an earlier one that did not run this time."""
        if self.course.tools is Tools.LIVE:
            return False
        if not self._came.isdisjoint([call.name, *map(str, call.args.values())]):
            return True
        looked = self._looked.get(call.id) or _places(call.args)
        return any(_overlap(place, other) for place, other in product(looked, self._touched))


def _overlap(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _is_same(call: ToolCall, started: ToolStarted | None) -> bool:
    """Return True if an inner call is the recorded one.

    Args with a redacted secret are not compared.
    """
    if started is None or started.tool_name != call.name:
        return False
    if has_mark(started.args):
        return True
    return call_identity(call.name, call.args) == call_identity(call.name, started.args)


def _by_preview(verdict: Verdict) -> tuple[str, ...]:
    """Return the statuses of a call that its preview may have refused before it asked."""
    return ("error",) if verdict.approval is Approval.ASK else ()


def _same_file(one: ToolOutcome, other: ToolOutcome) -> bool:
    """Return True if both wrote the same content to the same file, whatever was there before."""
    match one.value, other.value:
        case Diff(path=path, modified=text), Diff(path=place, modified=content):
            return (path, text) == (place, content)
        case _:
            return False


def _places(value: Any) -> set[PurePosixPath]:
    """Return the paths in an input or a result; relative ones are in the default zone."""
    match value:
        case dict():
            found: set[PurePosixPath] = set()
            if isinstance(value.get("path"), str):
                found.add(PurePosixPath("/", DEFAULT_ZONE, value["path"]))
            return found.union(*map(_places, value.values()))
        case list():
            return set().union(*map(_places, value))
        case _:
            return set()
