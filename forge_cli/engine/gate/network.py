"""Consent to connections of commands: what no rule of ``sandbox.network`` covers asks at the gate, as calls do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
from forge_cli.core.errors import Mark
from forge_cli.core.events import NetworkAccess
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.engine.gate.consent import settled_request
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.gate.grants import AskedCall
from forge_cli.sandbox.network.access import Destination

NETWORK = "network"
"""The name that such a request has in place of a tool's."""
RULE = "sandbox.network"
UNCOVERED = f"no rule of {RULE} covers it"
UNANSWERED = "the command ended, or was interrupted, before anybody answered"


@dataclass(frozen=True, kw_only=True)
class NetworkConsent:
    """Asks for the connections of one worker's commands, and puts every connection on record."""

    worker: str
    workspace: str
    setting: str
    where: Mark | None
    """The place of the rules."""
    controller: ApprovalController
    interrupt: InterruptSignal
    policy_files: Mapping[str, str] = field(default_factory=dict)
    """The files that rules may be written to."""
    denials: list[Denial] = field(default_factory=list)
    """Denials since the last time somebody took note of them."""

    async def ask(self, wanted: Destination) -> ApprovalDecision:
        """Whether a command may go where no rule lets it; a running command cannot wait on disk for the answer."""
        rule = self._rule(wanted)
        decision = self.controller.settled(AskedCall(rule.key, [[rule]]))
        if decision is None:
            request = self._request(wanted, rule)
            decision = ApprovalDecision(False, note=UNANSWERED, by="headless")
            try:
                with self.interrupt.scope():
                    decision = await self.controller.request_approval(request, needs=[[rule]], may_park=False)
            finally:
                self.controller.bus.emit(settled_request(request, decision))
        if not decision.approved:
            why = decision.note or "the user said no"
            self.denials.append(Denial(f"{wanted} was not reached: {UNCOVERED}; {why}", decision.by))
        return decision

    def record(self, wanted: Destination, *, allowed: bool, by: DecidedBy, reason: str | None) -> None:
        event = NetworkAccess(wanted.host, wanted.port, allowed, by, current_call(), reason)
        self.controller.bus.emit(event)

    def _rule(self, wanted: Destination) -> GrantRule:
        """The rule of a grant: host and port, whichever command wants them."""
        key = fingerprint(
            worker=f"{self.worker} {self.setting}",
            source=NETWORK,
            digest=None,
            tool=NETWORK,
            args={"host": wanted.host, "port": wanted.port},
        )
        return GrantRule(("sandbox", "network", NEW_ENTRY), str(wanted), f"connections to {wanted}", key=key)

    def _request(self, wanted: Destination, rule: GrantRule) -> ApprovalRequest:
        return ApprovalRequest(
            request_id=new_id("approval"),
            tool_call_id=new_id(NETWORK),  # one of its own: the call that runs the command has its verdict already
            tool_name=NETWORK,
            args={"host": wanted.host, "port": wanted.port, "command": wanted.command},
            description=f"{' > '.join(self.controller.bus.path or (self.worker,))} wants to reach {wanted}",
            reason=UNCOVERED,
            risk=risk_of(frozenset({Effect.NETWORK})),
            rule=RULE,
            where=self.where,
            fingerprint=rule.key,
            offers=self.controller.offers(AskedCall(None, [[rule]])) or None,
            policy_files=self.policy_files,
            runs=CommandRun(self.workspace, confined=True, argument="command"),
        )
