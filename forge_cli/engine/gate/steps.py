"""The values that a call becomes on its way through the gate; a Refusal ends it."""

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
from forge_cli.core.tool import TIME_LIMIT, Args, Preview, Tried
from forge_cli.schema.tool import Tool

if TYPE_CHECKING:
    from forge_cli.core.trial import CommandTried, TrialExtent
    from forge_cli.engine.gate.offer import Offer
    from forge_cli.sandbox.files.sandbox import JudgedPath


GRACE = bounds.CANCEL_GRACE + 1.0
"""Seconds after the limit until a call that blocks the event loop ends the process.

A call that does not block it is abandoned before.
"""


class Caller(Enum):
    """The caller of a tool: the model, the user, the command line, or a program."""

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
    """A tool that calls another one; ``root`` is the caller of the outermost call."""

    name: str
    root: Caller
    depth: int = 1

    @property
    def value(self) -> str:
        return f"tool:{self.name}"

    def may_call(self, tool: Tool) -> bool:
        """Return True if the tool may be called.

        A tool for people only may not if the model started it.
        """
        return tool.mode != "manual" or self.root is not Caller.MODEL


AnyCaller = Caller | CallingTool


class CallClock(Struct):
    """The time limit of one call.

    Without a limit of its own, the time of child workers does not count.
    """

    timeout: float | None
    delegating: int = 0
    section: bounds.Section | None = None
    inside: list[anyio.CancelScope] = field(default_factory=list)
    """The scopes of inner calls, which run in other tasks if the tool calls them from a thread."""
    over: bool = False
    """True if the call is being stopped."""
    partial_value: Any = None
    """The value that a stopped tool returned, such as the output of a command so far."""
    _away: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    @property
    def limit(self) -> float:
        return TIME_LIMIT if self.timeout is None else self.timeout

    def left(self) -> float:
        # A limit that the tool states itself includes the time of child workers.
        if self.delegating and self.timeout is None:
            return math.inf
        return max(0.0, self._began + self._away + self.limit - time.monotonic())

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stop the clock while a child worker or an inner call works."""
        since = time.monotonic()
        self.delegating += 1
        self._update_deadline()
        try:
            yield
        finally:
            self.delegating -= 1
            if self.timeout is None and not self.delegating:
                self._away += time.monotonic() - since
            self._update_deadline()

    def stop(self) -> None:
        """Let the call start nothing more, and cancel what it has started."""
        self.over = True
        # Child workers get as long as they need to end.
        if self.section and self.delegating:
            self.section.due = math.inf
        for scope in self.inside:
            scope.cancel()

    def _update_deadline(self) -> None:
        if self.section:
            self.section.due = time.monotonic() + self.left() + GRACE


class Requested(Struct):
    """A requested call, with everything that is counted until its outcome."""

    call: ToolCall
    caller: AnyCaller
    started: float = field(default_factory=time.monotonic)
    # Monotonic, like every time here: the clock of the machine may be set while a call runs.
    waited: float = 0.0
    """Seconds that it waited for an answer."""
    clock: CallClock | None = None
    """Its time limit, once its tool runs."""
    made: int = 0
    """The number of calls that its tool made."""
    denials: list[Denial] = field(default_factory=list)
    """The denials among these calls."""
    ran_in_trial: bool = False
    """True if its effects are those of a trial, which has no network."""
    consented: Judged | None = None
    """The call as it was executed last; its verdict may have changed since it was judged first."""

    @property
    def duration_ms(self) -> int:
        """The time that it took until now, without waiting for an answer."""
        return round((time.monotonic() - self.started - self.waited) * 1000)


class Judged(Struct, frozen=True):
    """A call that can run: valid args, the places of its paths, and the verdict on it."""

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
        """Return the event that records a decision on the call."""
        more = {
            "request_id": request_id,
            "caller": self.calling_tool,
            "fingerprint": self.fingerprint,
        }
        return decided(self.call.id, self.verdict, decision, **more)

    @property
    def fingerprint(self) -> str:
        """The identity that a grant is bound to: the target call with resolved paths."""
        real = self.target or self
        tool = real.tool
        args = dict(real.resolved)
        # A path that is inside a text, such as a patch, belongs to no arg of its own.
        inside = [(path.use.access.value, path.place) for path in real.places if not path.use.at]
        if inside:
            args[""] = inside
        source = str(tool.source) if tool.source else real.offer.toolset
        return fingerprint(
            worker=self.bound_to, source=source, digest=tool.digest, tool=tool.name, args=args
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its tool, with and without ``prefix:``, and those of the target."""
        names = [self.tool.name, self.offer.original]
        if self.target:
            names += [self.target.tool.name, self.target.offer.original]
        return tuple(filter(None, names))

    @property
    def calling_tool(self) -> str | None:
        """The tool that makes the call, as requests name it."""
        if isinstance(self.caller, CallingTool):
            return self.caller.value
        return None

    @property
    def paths(self) -> dict[str, str]:
        """The args that are paths, each with the virtual path of the real file."""
        return {str(path.use.at[0]): path.place for path in self.places if len(path.use.at) == 1}

    @property
    def resolved(self) -> Args:
        """The args with every path resolved, at any depth."""
        places = {path.use.at: path.place for path in self.places if path.use.at}
        if not places:
            return self.args
        from forge_cli.schema.found_paths import with_paths

        return with_paths(self.args, places)


def decided(
    call: str, verdict: Verdict, decision: ApprovalDecision, **more: Any
) -> ApprovalDecided:
    """Return the event that records a decision."""
    return ApprovalDecided(
        call,
        verdict=verdict.approval.value,
        approved=decision.approved,
        by=decision.by,
        rule=verdict.rule,
        where=verdict.where,
        reason=verdict.reason if decision.note is None else f"{verdict.reason}; {decision.note}",
        cached=decision.by == "memory",
        provenance=verdict.provenance or None,
        grant=decision.grant,
        via=decision.via,
        **more,
    )


class Consented(Struct, frozen=True):
    """A call that may be executed."""

    judged: Judged
    stamp: str | None = None
    """The stamp of the approved preview; None if nothing was shown."""
    tried: CommandTried | None = None
    """The result of the trial, if the call only has to be applied."""
    for_apply: Tried | None = None
    """What was shown of a tool with ``apply``."""


class Performed(Struct, frozen=True):
    """The end of an execution: a value, an exception, or late if it was stopped."""

    value: Any = None
    error: BaseException | None = None
    late: bool = False


class Refusal(Exception):
    """The end of a call that is not executed, whether it asked before or not."""

    def __init__(
        self, status: OutcomeStatus, sentence: str, by: str | None = None, rule: str = ""
    ) -> None:
        super().__init__(sentence)
        self.status: OutcomeStatus = status
        self.sentence = sentence
        self.by = by
        self.rule = rule
        """The rule behind it and its place, for people, after the sentence."""


class ShownTrial(Struct, frozen=True):
    """The trial that a question shows: a grant then allows only trials with no more changes."""

    below: GrantOffer | None = None
    """The folder with all changes, if it can be granted."""
    extent: TrialExtent | None = None
    """None if the trial was incomplete, so that a yes runs the call without a trial."""

    @classmethod
    def of(cls, preview: Preview | None) -> ShownTrial | None:
        """Return the trial in a preview, or None if the call was not tried."""
        if preview is None or preview.tried is None:
            return None
        return cls(preview.changed, preview.extent)


def is_complete(extent: TrialExtent | None) -> bool:
    """Return True if a trial showed everything that the call would do."""
    return extent is not None and extent.complete


class AskedCall(Struct, frozen=True):
    """The facts about a call that grants are compared with; its fingerprint may be None."""

    fingerprint: str | None
    needs: Needs = ()
    trial: ShownTrial | None = None
    ungranted: bool = False
    """True if no earlier grant counts, because the session has read untrusted text since."""

    @property
    def below(self) -> GrantOffer | None:
        """The folder in which a trial of it changed something."""
        return self.trial.below if self.trial else None


def settled_request(request: ApprovalRequest, decision: ApprovalDecision) -> ApprovalDecided:
    """Return the event that records the decision on a request that is not about a call."""
    verdict = Verdict(Approval.ASK, request.reason, request.rule, request.where)
    more = {"request_id": request.request_id, "fingerprint": request.fingerprint}
    return decided(request.tool_call_id, verdict, decision, **more)
