"""The settling of an ``ask``: by memory, the approval mode, a program's callback, a person on the bus, or a refusal."""

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
    from forge_cli.core.approval import Needs
    from forge_cli.engine.gate.grants import SessionGrants
    from forge_cli.engine.gate.protocols import Given, WorkerHooks

Answer = ApprovalDecision | bool | Mapping[str, Any]
"""A program's answer to a request; a mapping has the fields of a decision."""
ApprovalCallback = Callable[[ApprovalRequest], Answer | Awaitable[Answer]]


class ApprovalController:
    """Settles requests under one approval mode; a yes "for the session" covers identical calls, or what a rule does."""

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
        """With ``parks`` a request that reaches no person waits on disk; ``parent`` is that of the parent worker."""
        self.mode = ApprovalMode(mode)
        self.callback = approval_callback
        self.bus = bus or EventBus()
        self.parks = parks
        self.hooks = hooks
        self._parent = parent
        self._session_mode: SessionMode = "ask"

    @property
    def session_mode(self) -> SessionMode:
        """The freedom that the person gives the worker now; what it tightens holds for child workers, too."""
        if self._parent is None:
            return self._session_mode
        return "readOnly" if self._parent.session_mode == "readOnly" else "ask"

    def change_session_mode(self, mode: SessionMode) -> None:
        """Let calls be judged so from the next one on."""
        if mode != self._session_mode:
            self._session_mode = mode
            self.bus.emit(ModeChanged(mode))

    @cached_property
    def _grants(self) -> SessionGrants:
        from forge_cli.engine.gate.grants import SessionGrants

        return SessionGrants()

    @cached_property
    def _one_prompt(self) -> anyio.Lock:
        return self._parent._one_prompt if self._parent else anyio.Lock()

    @property
    def attended(self) -> bool:
        """Could an ``ask`` reach somebody?"""
        return self.callback is not None or self.bus.attended

    def offers(self, call: AskedCall) -> tuple[GrantOffer, ...]:
        """Grants that a person could give for the rest of the session; none where no person can be asked."""
        return self._grants.offers(call) if self.attended else ()

    def settled(self, call: AskedCall) -> ApprovalDecision | None:
        """The answer that needs no asking: an earlier grant that covers the call, or the mode."""
        if given := self._grants.covering(call):
            note = given.text if given.below else "; ".join(map(str, given.rules))
            note = (
                f"allowed in this session by {note}" if note else "approved earlier in this session"
            )
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
        """Settle a request, asking where it must be asked; one prompt at a time, of which every hook hears.

        ``fingerprint`` is what a yes for the session is remembered by, that of the request unless another is given, or
        one of its tool and args; ``needs`` are the rules that would allow the call, ``trial`` is what was tried.
        Hooks match ``names``, or the name of the request.
        """
        fingerprint = (
            None if request.once else fingerprint or request.fingerprint or _fingerprint(request)
        )
        call = AskedCall(fingerprint, needs, trial)
        async with self._one_prompt:
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
            self._tell_grants()
        return replace(decision, grant=given)

    async def request_form(
        self, request: ApprovalRequest, fill_in: Callable[[], Awaitable[Given]]
    ) -> Given | ApprovalDecision:
        """Have a form filled in that needs no yes before; hooks hear of it as of a request, and one may deny it."""
        async with self._one_prompt:
            if self.hooks:
                return await self.hooks.while_asked(
                    request, (request.tool_name,), fill_in, form=True
                )
            return await fill_in()

    @property
    def grants(self) -> tuple[SessionGrant, ...]:
        """The grants of the person for the rest of the session, in that order."""
        return tuple(each.grant for each in self._grants.all)

    def revoke(self, gone: Callable[[int, SessionGrant], bool]) -> list[SessionGrant]:
        """Take back every grant of which this is true, by its number from 1 on; what it allowed asks again."""
        if taken := self._grants.revoke(gone):
            self._tell_grants()
        return taken

    def _tell_grants(self) -> None:
        self.bus.emit(GrantsEvent(self.grants))

    async def _ask(self, request: ApprovalRequest, *, parks: bool) -> ApprovalDecision:
        if self.callback is not None:
            self.bus.emit(ApprovalRequired(request))
            before = count_cancellations()
            decision = await _ask_callback(self.callback, request)
            await check_cancelled(before)
            self.bus.emit(ApprovalResponse(request.request_id, decision))
            return decision
        if self.bus.attended:
            return await self.bus.ask(request)
        self.bus.emit(ApprovalRequired(request))
        if parks:
            raise Parked(f"{request.tool_name} waits for an answer: {request.reason}")
        return ApprovalDecision(False, note=COULD_NOT_ASK, by="headless")


async def _ask_callback(callback: ApprovalCallback, request: ApprovalRequest) -> ApprovalDecision:
    try:
        given = callback(request)
        decision = given = await given if inspect.isawaitable(given) else given
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
            read(ApprovalDecision, wire(decision))  # as the record will be
            could_not_ask = not decision and decision.by == "headless"
            return decision if could_not_ask else replace(decision, by="user")
    note = f"the approval callback gave {reprlib.repr(given)}, which is not a decision"
    return ApprovalDecision(False, note=note, by="headless")


def _fingerprint(request: ApprovalRequest) -> str:
    return fingerprint_of(
        worker="", source="", digest=None, tool=request.tool_name, args=jsonable(request.args)
    )
