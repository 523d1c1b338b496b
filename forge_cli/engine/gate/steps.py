"""The values that a call becomes on its way through the gate, the step before in each; a Refusal ends it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

import anyio
from msgspec import Struct, field

from forge_cli.core import bounds
from forge_cli.core.approval import (
    Approval,
    ApprovalDecision,
    ApprovalRequest,
    GrantOffer,
    Needs,
    Verdict,
    fingerprint,
)
from forge_cli.core.calls import Denial, OutcomeStatus, ToolCall
from forge_cli.core.events import ApprovalDecided
from forge_cli.core.tool import TIME_LIMIT, Args, Preview
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.trial import CommandTried, TrialExtent
    from forge_cli.engine.gate.offer import Offer
    from forge_cli.sandbox.files.sandbox import JudgedPath


GRACE = bounds.CANCEL_GRACE + 1.0
"""Seconds after its limit until a call that holds the event loop ends the process: by then it would be abandoned."""


class Caller(Enum):
    """The caller of a tool: the model, the person in a conversation, the operator at the command line, or a program."""

    MODEL = "model"
    PERSON = "person"
    OPERATOR = "operator"
    PROGRAM = "program"

    def may_call(self, tool: Tool) -> bool:
        match self:
            case Caller.MODEL:
                return tool.mode in ("llm", "both")
            case Caller.PERSON:
                return tool.mode in ("manual", "both")
            case Caller.OPERATOR | Caller.PROGRAM:
                return True


class CallingTool(Struct, frozen=True):
    """A tool as the caller of another one; ``root`` is who wanted the outermost call."""

    name: str
    root: Caller
    depth: int = 1

    @property
    def value(self) -> str:
        return f"tool:{self.name}"

    def may_call(self, tool: Tool) -> bool:
        """May the tool be called? One for people only may not, however the model reaches for it."""
        return tool.mode != "manual" or self.root is not Caller.MODEL


AnyCaller = Caller | CallingTool


class CallClock(Struct):
    """The time of one call; without a limit of its own there is the usual one, and child workers do not count in it."""

    timeout: float | None
    delegating: int = 0
    section: bounds.Section | None = None
    inside: list[anyio.CancelScope] = field(default_factory=list)
    """Those of inner calls, which may run in other tasks than the tool, where it calls them from a thread."""
    over: bool = False
    """Is the call being stopped?"""
    kept: Any = None
    """The value that the tool gave back when it was stopped, such as the output of a command until then."""
    _away: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    @property
    def limit(self) -> float:
        return TIME_LIMIT if self.timeout is None else self.timeout

    def left(self) -> float:
        if self.delegating and self.timeout is None:
            return math.inf
        return max(0.0, self._began + self._away + self.limit - time.monotonic())

    @contextmanager
    def pause(self) -> Iterator[None]:
        """While a child worker works, or an inner call."""
        since, self.delegating = time.monotonic(), self.delegating + 1
        self._tell()
        try:
            yield
        finally:
            self.delegating -= 1
            if self.timeout is None and not self.delegating:
                self._away += time.monotonic() - since
            self._tell()

    def stop(self) -> None:
        """Let the call start nothing more, and end what it has started."""
        self.over = True
        if self.section and self.delegating:
            self.section.due = math.inf
        for scope in self.inside:
            scope.cancel()

    def _tell(self) -> None:
        if self.section:
            self.section.due = time.monotonic() + self.left() + GRACE


class Requested(Struct):
    """A call that somebody wants, and what is counted of it on the way to its outcome."""

    call: ToolCall
    caller: AnyCaller
    started: float = field(default_factory=time.monotonic)
    waited: float = 0.0
    """Seconds for which it has waited for an answer."""
    clock: CallClock | None = None
    """Its time, once its tool runs."""
    made: int = 0
    """How many calls its tool has made."""
    denials: list[Denial] = field(default_factory=list)
    """Denials among these calls."""

    @property
    def duration_ms(self) -> int:
        """How long it has taken until now, without the time that it waited for an answer."""
        return round((time.monotonic() - self.started - self.waited) * 1000)


class Judged(Struct, frozen=True):
    """A call that can run, with valid args, the places that its paths led to, and the verdict on it."""

    call: ToolCall
    offer: Offer
    args: Args
    places: tuple[JudgedPath, ...]
    verdict: Verdict
    caller: AnyCaller
    bound_to: str
    target: Judged | None = None
    """The call that this one stands for."""

    @property
    def tool(self) -> Tool:
        return self.offer.tool

    def decided(self, decision: ApprovalDecision, request_id: str | None = None) -> ApprovalDecided:
        """The event that records a decision on it."""
        more = {
            "request_id": request_id,
            "caller": self.calling_tool,
            "fingerprint": self.fingerprint,
        }
        return decided(self.call.id, self.verdict, decision, **more)

    @property
    def fingerprint(self) -> str:
        """The identity that a grant is bound to: that of the target call, with its paths resolved."""
        real = self.target or self
        tool, inside = real.tool, [path for path in real.places if not path.use.at]
        args = {
            **real.resolved,
            **({"": [(path.use.access.value, path.place) for path in inside]} if inside else {}),
        }
        source = str(tool.source) if tool.source else real.offer.toolset
        return fingerprint(
            worker=self.bound_to, source=source, digest=tool.digest, tool=tool.name, args=args
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of its tool: as it is offered and before ``prefix:``, and of what it stands for."""
        names = [self.tool.name, self.offer.original]
        if self.target:
            names += [self.target.tool.name, self.target.offer.original]
        return tuple(filter(None, names))

    @property
    def calling_tool(self) -> str | None:
        """The tool that makes the call, as requests name it."""
        return self.caller.value if isinstance(self.caller, CallingTool) else None

    @property
    def paths(self) -> dict[str, str]:
        """The arguments that are paths, as the virtual paths of the files that they really mean."""
        return {str(path.use.at[0]): path.place for path in self.places if len(path.use.at) == 1}

    @property
    def resolved(self) -> Args:
        """The args with every path resolved, wherever it stands in them."""
        places = {path.use.at: path.place for path in self.places if path.use.at}
        if not places:
            return self.args
        from forge_cli.schema.found_paths import with_paths

        return with_paths(self.args, places)


def decided(
    call: str, verdict: Verdict, decision: ApprovalDecision, **more: Any
) -> ApprovalDecided:
    """The event that records a decision."""
    return ApprovalDecided(
        call,
        verdict=verdict.approval.value,
        approved=decision.approved,
        by=decision.by,
        rule=verdict.rule,
        where=verdict.where,
        reason=verdict.reason if decision.note is None else f"{verdict.reason}; {decision.note}",
        cached=decision.by == "memory",
        grant=decision.grant,
        via=decision.via,
        **more,
    )


class Consented(Struct, frozen=True):
    """A call that may be performed."""

    judged: Judged
    stamp: str | None = None
    """That of the preview which was approved; None where nothing was shown."""
    tried: CommandTried | None = None
    """The result of that preview on a copy, for a call that only has to be applied."""


class Performed(Struct, frozen=True):
    """How an execution ended: with a value, with an exception, or late, so that it was stopped."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False


class Refusal(Exception):
    """The call ends here: no person is asked, or one said no."""

    def __init__(
        self, status: OutcomeStatus, sentence: str, by: str | None = None, rule: str = ""
    ) -> None:
        super().__init__(sentence)
        self.status: OutcomeStatus = status
        self.sentence = sentence
        self.by = by
        self.rule = rule
        """For people, after the sentence: which rule is behind it, and where it stands."""


class ShownTrial(Struct, frozen=True):
    """The trial that a question shows: what is granted then allows trials, and never more than this one changed."""

    below: GrantOffer | None = None
    """The folder that holds all changes, where that can be allowed."""
    extent: TrialExtent | None = None
    """None where the trial was incomplete, so that a yes runs the call for real."""

    @classmethod
    def of(cls, preview: Preview | None) -> ShownTrial | None:
        """Return what a preview shows of a trial; None if the call was not tried."""
        if preview is None or preview.tried is None:
            return None
        return cls(preview.changed, preview.extent)


def is_complete(extent: TrialExtent | None) -> bool:
    """Return True if a trial showed everything that the call would do."""
    return extent is not None and extent.complete


class AskedCall(Struct, frozen=True):
    """The essence of a call that asks: its identity (None where it cannot be remembered), and what would allow it."""

    fingerprint: str | None
    needs: Needs = ()
    trial: ShownTrial | None = None

    @property
    def below(self) -> GrantOffer | None:
        """The folder in which a trial of it changed something."""
        return self.trial.below if self.trial else None


def settled_request(request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecided:
    """How a request was settled that is not one of a call."""
    verdict = Verdict(Approval.ASK, request.reason, request.rule, request.where)
    more = {"request_id": request.request_id, "fingerprint": request.fingerprint}
    return decided(request.tool_call_id, verdict, decision, **more)
