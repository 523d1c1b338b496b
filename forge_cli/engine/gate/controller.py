"""Answers to an ``ask``: by an earlier grant, the approval mode, a program or a person."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio
from msgspec.structs import replace

from forge_cli.core.actions import ApprovalResponse
from forge_cli.core.approval import (
    ApprovalDecision,
    ApprovalMode,
    ApprovalRequest,
    GrantOffer,
    SessionMode,
)
from forge_cli.core.approval import fingerprint as fingerprint_of
from forge_cli.core.bounds import check_cancelled, count_cancellations
from forge_cli.core.bus import EventBus
from forge_cli.core.events import ApprovalRequired, GrantsEvent, ModeChanged, SessionGrant
from forge_cli.core.interrupt import Parked
from forge_cli.core.phrases import COULD_NOT_ASK
from forge_cli.core.wire import Unreadable, error_text, jsonable, read, wire
from forge_cli.engine.gate.steps import AskedCall, ShownTrial

if TYPE_CHECKING:
    from forge_cli.core.approval import GrantRule, Needs
    from forge_cli.core.trial import TrialExtent
    from forge_cli.engine.gate.grants import SessionGrants
    from forge_cli.engine.gate.protocols import Given, WorkerHooks

Answer = ApprovalDecision | bool | Mapping[str, Any]
"""A program's answer to a request; a mapping has the fields of a decision."""
ApprovalCallback = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]


class ApprovalController:
    """Settles requests under one approval mode, and remembers what is granted for the session."""

    def __init__(
        self,
        mode: ApprovalMode | str = ApprovalMode.INTERACTIVE,
        approval_callback: ApprovalCallback | None = None,
        *,
        bus: EventBus | None = None,
        parks: bool = False,
        parent: ApprovalController | None = None,
        hooks: WorkerHooks | None = None,
    ) -> None:
        """Make a controller; if ``parks`` is True, a request without a listener waits on disk.

        ``parent`` is the controller of the parent worker.
        """
        self.mode = ApprovalMode(mode)
        self.callback = approval_callback
        self.bus = bus or EventBus()
        self.parks = parks
        self.hooks = hooks
        self._parent = parent
        self.saved_rules: list[GrantRule] = parent.saved_rules if parent else []
        """The rules that the person has saved or refused in this session, for all its workers."""
        self._session_mode: SessionMode = "ask"
        self.drafted: frozenset[str] = parent.drafted if parent else frozenset()
        """Real folders that the session sees through the view of a draft."""

    @property
    def session_mode(self) -> SessionMode:
        """The mode of the session; a parent's read-only mode applies to child workers, too."""
        if self._parent is None:
            return self._session_mode
        # Child workers do not inherit ``acceptEdits``.
        return "readOnly" if self._parent.session_mode == "readOnly" else "ask"

    def draft_allows(self, extent: TrialExtent | None) -> bool:
        """Return True if all effects of a trial are in a draft, whose review asks about them."""
        if not self.drafted or extent is None or not extent.complete or extent.obeyed:
            return False
        touched = {*extent.paths, *extent.deleted, *extent.repositories}
        return all(
            any(path == zone or path.startswith(f"{zone}/") for zone in self.drafted)
            for path in touched
        )

    def change_session_mode(self, mode: SessionMode) -> None:
        """Change the mode for the following calls."""
        if mode != self._session_mode:
            self._session_mode = mode
            self.bus.emit(ModeChanged(mode))

    @cached_property
    def _grants(self) -> SessionGrants:
        from forge_cli.engine.gate.grants import SessionGrants

        return SessionGrants()

    @cached_property
    def rule_question_lock(self) -> anyio.Lock:
        """The lock that lets one worker of the session at a time ask about a rule."""
        if self._parent:
            return self._parent.rule_question_lock
        return anyio.Lock()

    @cached_property
    def _prompt_lock(self) -> anyio.Lock:
        if self._parent:
            return self._parent._prompt_lock
        return anyio.Lock()

    @property
    def attended(self) -> bool:
        """True if a request can reach a person or a program."""
        return self.callback is not None or self.bus.attended

    def offers(self, call: AskedCall) -> tuple[GrantOffer, ...]:
        """Return the grants for the session that a person could give, if one can be asked."""
        return self._grants.offers(call) if self.attended else ()

    def settled(self, call: AskedCall) -> ApprovalDecision | None:
        """Return the answer of an earlier grant or of the approval mode.

        Return None if a person or a program must be asked.
        """
        if not call.ungranted and (given := self._grants.covering(call)):
            rules = given.text if given.below else "; ".join(map(str, given.rules))
            note = "approved earlier in this session"
            if rules:
                note = f"allowed in this session by {rules}"
            return ApprovalDecision(True, note=note, by="memory", grant=given)
        match self.mode:
            case ApprovalMode.APPROVE_ALL:
                return ApprovalDecision(True, note="approval mode approve_all", by="mode")
            case ApprovalMode.AUTO_DENY:
                return ApprovalDecision(False, note="approval mode auto_deny", by="mode")
            case ApprovalMode.INTERACTIVE:
                return None

    async def request_approval(
        self,
        request: ApprovalRequest,
        fingerprint: str | None = None,
        *,
        needs: Needs = (),
        trial: ShownTrial | None = None,
        may_park: bool = True,
        names: Sequence[str] = (),
    ) -> ApprovalDecision:
        """Settle a request, and ask if necessary; one prompt at a time, with all its hooks.

        A grant for the session is remembered by ``fingerprint``, else by that of the request, else
        by one of its tool and args. ``needs`` are the rules that would allow the call, ``trial`` is
        the trial that was shown. Hooks match ``names``, or the name of the request.
        """
        if request.once:
            fingerprint = None
        else:
            fingerprint = fingerprint or request.fingerprint or _fingerprint(request)
        call = AskedCall(fingerprint, needs, trial, ungranted=request.provenance is not None)
        async with self._prompt_lock:
            # Again: the answer to the prompt before this one may cover this call as well.
            decision = self.settled(call)
            if decision is not None:
                return decision
            self._grants.note(call)
            parks = self.parks and may_park
            ask = partial(self._ask, request, parks=parks)
            if self.hooks and (self.attended or parks):
                decision = await self.hooks.while_asked(
                    request, names or (request.tool_name,), ask, form=False
                )
            else:
                decision = await ask()
        if not decision.approved or decision.remember != "session":
            return replace(decision, grant=None)
        given = self._grants.give(decision.grant, call, request)
        if given:
            self._report_grants()
        return replace(decision, grant=given)

    async def request_form(
        self, request: ApprovalRequest, fill_in: Callable[[], Awaitable[Given]]
    ) -> Given | ApprovalDecision:
        """Ask for a form that needs no approval; hooks are notified, and may deny it."""
        async with self._prompt_lock:
            if self.hooks:
                return await self.hooks.while_asked(
                    request, (request.tool_name,), fill_in, form=True
                )
            return await fill_in()

    @property
    def grants(self) -> tuple[SessionGrant, ...]:
        """The grants for the session, in the order in which they were given."""
        return tuple(each.grant for each in self._grants.all)

    def revoke(self, gone: Callable[[int, SessionGrant], bool]) -> list[SessionGrant]:
        """Revoke the grants for which ``gone`` returns True; it gets their numbers, from 1 on."""
        if taken := self._grants.revoke(gone):
            self._report_grants()
        return taken

    def _report_grants(self) -> None:
        self.bus.emit(GrantsEvent(self.grants))

    async def _ask(self, request: ApprovalRequest, *, parks: bool) -> ApprovalDecision:
        if self.callback is not None:
            self.bus.emit(ApprovalRequired(request))
            # A callback that swallows a cancellation must not keep its task alive.
            before = count_cancellations()
            decision = await _ask_callback(self.callback, request)
            await check_cancelled(before)
            self.bus.emit(ApprovalResponse(request.request_id, decision))
            return decision
        if self.bus.attended:
            decision = await self.bus.ask(request)
            if not parks or decision.by != "headless":
                return decision
            # Whoever could answer has left meanwhile.
            raise _parked(request)
        self.bus.emit(ApprovalRequired(request))
        if parks:
            raise _parked(request)
        return ApprovalDecision(False, note=COULD_NOT_ASK, by="headless")


def _parked(request: ApprovalRequest) -> Parked:
    return Parked(f"{request.tool_name} waits for an answer: {request.reason}")


async def _ask_callback(callback: ApprovalCallback, request: ApprovalRequest) -> ApprovalDecision:
    try:
        given = callback(request)
        if inspect.isawaitable(given):
            given = await given
        decision = given
    except Exception as error:  # third-party code: a callback that fails has not said yes
        return ApprovalDecision(
            False, note=f"the approval callback failed: {error_text(error)}", by="headless"
        )
    match decision:
        case bool():
            return ApprovalDecision(decision)
        case Mapping():
            with suppress(TypeError):
                decision = ApprovalDecision(**decision)
    if isinstance(decision, ApprovalDecision):
        with suppress(Unreadable):
            read(ApprovalDecision, wire(decision))  # or the record could not be read
            # A callback cannot claim another origin, such as a rule or a hook.
            could_not_ask = not decision and decision.by == "headless"
            if could_not_ask:
                return decision
            return replace(decision, by="user")
    note = f"the approval callback returned {reprlib.repr(given)}, which is not a decision"
    return ApprovalDecision(False, note=note, by="headless")


def _fingerprint(request: ApprovalRequest) -> str:
    return fingerprint_of(
        worker="", source="", digest=None, tool=request.tool_name, args=jsonable(request.args)
    )
