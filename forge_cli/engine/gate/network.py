"""Consent to connections of commands that no rule of ``sandbox.network`` covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.approval import (
    NEW_ENTRY,
    ApprovalDecision,
    ApprovalRequest,
    CommandRun,
    DecidedBy,
    Effect,
    GrantRule,
    fingerprint,
    risk_of,
)
from forge_cli.core.bus import new_id
from forge_cli.core.calls import Denial
from forge_cli.core.context import current_call
from forge_cli.core.events import NetworkAccess
from forge_cli.engine.gate.steps import AskedCall, settled_request
from forge_cli.sandbox.network.access import Destination

if TYPE_CHECKING:
    from forge_cli.core.errors import Mark
    from forge_cli.core.interrupt import InterruptSignal
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.judge import JudgedWorker

NETWORK = "network"
"""The tool name in requests about connections."""
RULE = "sandbox.network"
UNCOVERED = f"no rule of {RULE} covers it"
UNANSWERED = "the command ended before anybody answered"


class NetworkConsent:
    """Asks about the connections of one worker's commands, and records every connection."""

    def __init__(
        self,
        worker: JudgedWorker,
        controller: ApprovalController,
        interrupt: InterruptSignal,
        where: Mark | None,
        denials: list[Denial],
    ) -> None:
        """Make the consent of a worker.

        ``where`` is the place in the worker's file that lists allowed hosts. Denied connections are
        added to ``denials``.
        """
        self._worker = worker
        self._where = where
        self._controller = controller
        self._interrupt = interrupt
        self._denials = denials

    async def ask(self, wanted: Destination) -> ApprovalDecision:
        """Return the decision on a connection that no rule allows.

        The request cannot be parked, because the command is running.
        """
        rule = self._rule(wanted)
        decision = self._controller.settled(AskedCall(rule.key, [[rule]]))
        if decision is None:
            request = self._request(wanted, rule)
            # Recorded if the command ends, which cancels this task, before the answer.
            decision = ApprovalDecision(False, note=UNANSWERED, by="headless")
            try:
                with self._interrupt.scope():
                    decision = await self._controller.request_approval(
                        request, needs=[[rule]], may_park=False
                    )
            finally:
                self._controller.bus.emit(settled_request(request, decision))
        if not decision.approved:
            why = decision.note or "the user said no"
            self._denials.append(
                Denial(f"{wanted} was not reached: {UNCOVERED}; {why}", decision.by)
            )
        return decision

    def record(
        self, wanted: Destination, *, allowed: bool, by: DecidedBy, reason: str | None
    ) -> None:
        event = NetworkAccess(wanted.host, wanted.port, allowed, by, current_call(), reason)
        self._controller.bus.emit(event)

    def _rule(self, wanted: Destination) -> GrantRule:
        """Return the rule for a grant of this host and port to any command."""
        key = fingerprint(
            worker=self._worker.bound_to,
            source=NETWORK,
            digest=None,
            tool=NETWORK,
            args={"host": wanted.host, "port": wanted.port},
        )
        return GrantRule(
            ("sandbox", "network", NEW_ENTRY), str(wanted), f"connections to {wanted}", key=key
        )

    def _request(self, wanted: Destination, rule: GrantRule) -> ApprovalRequest:
        worker = " > ".join(self._controller.bus.path or (self._worker.name,))
        return ApprovalRequest(
            request_id=new_id("approval"),
            # An ID of its own: the call that runs the command has its decision already.
            tool_call_id=new_id(NETWORK),
            tool_name=NETWORK,
            args={"host": wanted.host, "port": wanted.port, "command": wanted.command},
            description=f"{worker} wants to reach {wanted}",
            reason=UNCOVERED,
            risk=risk_of(frozenset({Effect.NETWORK})),
            rule=RULE,
            where=self._where,
            fingerprint=rule.key,
            # Without a fingerprint, so that the only grant is the one of the rule.
            offers=self._controller.offers(AskedCall(None, [[rule]])) or None,
            policy_files=self._worker.policy_files,
            runs=CommandRun(str(self._worker.workspace), confined=True, argument="command"),
        )
