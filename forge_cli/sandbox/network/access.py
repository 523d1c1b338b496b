"""Access to the network: names are checked by rules or consent, and their addresses afterwards."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.abc import ByteStream
from msgspec import Struct

from forge_cli.core.approval import ApprovalDecision, DecidedBy
from forge_cli.core.phrases import COULD_NOT_ASK
from forge_cli.core.text import cut, visible
from forge_cli.sandbox.network.rules import (
    NAME_MAX,
    NetworkRules,
    address_refusal,
    host_and_port,
    is_address,
    read_host,
)

MAX_ADDRESSES = 8
MAX_QUESTIONS = 20
"""Names that one command may ask for, so that a program cannot keep a person busy for ever."""
MAX_REPORTED = 20
RESOLVE_TIME = 30

StopClock = Callable[[], AbstractContextManager[None]]


class Outside(Protocol):
    """The network as the proxy sees it."""

    async def resolve(self, host: str) -> Sequence[str]:
        """Return the addresses of a name; raise OSError if it has none."""
        ...

    def is_here(self, address: str) -> bool:
        """Return True for an address of this machine."""
        ...

    async def connect(self, address: str, port: int) -> ByteStream:
        """Connect to an address, never to a name; raise OSError if that fails."""
        ...


class Internet:
    """The network of this machine."""

    async def resolve(self, host: str) -> Sequence[str]:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return [str(address[0]) for *_, address in found][:MAX_ADDRESSES]

    def is_here(self, address: str) -> bool:
        """Return True for an address of this machine; nothing is sent to find that out."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket only chooses its own address; the port does not matter.
            probe.connect((address, 9))
            return str(probe.getsockname()[0]) == address
        return False

    async def connect(self, address: str, port: int) -> ByteStream:
        return await anyio.connect_tcp(address, port)


INTERNET = Internet()


class Destination(Struct, frozen=True):
    """The destination of a connection; the host is a name or an address."""

    host: str
    port: int
    command: str
    """The command line that wants to connect."""

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)


class NetworkGate(Protocol):
    """Asks about destinations that no rule covers, and records every connection."""

    async def ask(self, wanted: Destination) -> ApprovalDecision: ...

    def record(
        self, wanted: Destination, *, allowed: bool, by: DecidedBy, reason: str | None
    ) -> None: ...


class NeverAsks:
    """A gate that refuses every destination, and records nothing."""

    async def ask(self, wanted: Destination) -> ApprovalDecision:
        return ApprovalDecision(False, note=COULD_NOT_ASK, by="headless")

    def record(
        self, wanted: Destination, *, allowed: bool, by: DecidedBy, reason: str | None
    ) -> None:
        pass


NEVER_ASKS = NeverAsks()


class Refused(Exception):
    """A connection that is not made, with the reason."""

    def __init__(self, reason: str, by: DecidedBy) -> None:
        super().__init__(reason)
        self.by = by


@dataclass
class NetworkCheck:
    """The connections of one command; an answer holds for all to the same host and port."""

    command: str
    rules: NetworkRules
    gate: NetworkGate
    outside: Outside
    refused: dict[str, str] = field(default_factory=dict)
    """The reason for each refused destination."""
    _answers: dict[Destination, ApprovalDecision] = field(default_factory=dict)
    _one_question: anyio.Lock = field(default_factory=anyio.Lock)

    async def admit(self, host: str, port: int, stop_clock: StopClock) -> Sequence[str]:
        """Return the addresses of a host; raise Refused if the command may not reach it."""
        wanted = Destination(visible(cut(host, NAME_MAX, "middle")), port, self.command)
        try:
            wanted = Destination(_read(host), port, self.command)
            by = await self._consent(wanted, stop_clock)
            addresses = self._public(await self._resolve(wanted.host))
        except Refused as error:
            if len(self.refused) < MAX_REPORTED:
                self.refused[str(wanted)] = str(error)
            self.gate.record(wanted, allowed=False, by=error.by, reason=str(error))
            raise
        self.gate.record(wanted, allowed=True, by=by, reason=None)
        return addresses

    async def _consent(self, wanted: Destination, stop_clock: StopClock) -> DecidedBy:
        """Return who consented to a destination.

        A name is resolved only afterwards, because resolving it tells others about it.
        """
        if is_address(wanted.host):
            self._public([wanted.host])
        if self.rules.covers(wanted.host, wanted.port):
            return "rule"
        # Parallel connections to one host must not ask several times.
        async with self._one_question:
            decision = self._answers.get(wanted)
            if decision is None:
                if len(self._answers) >= MAX_QUESTIONS:
                    reason = f"no rule covers it, and the command asked for {MAX_QUESTIONS} others"
                    raise Refused(reason, "rule")
                with stop_clock():
                    decision = self._answers[wanted] = await self.gate.ask(wanted)
        if not decision.approved:
            reason = "no rule covers it"
            if decision.note:
                reason = f"{reason}; {decision.note}"
            raise Refused(reason, decision.by)
        return decision.by

    async def _resolve(self, host: str) -> Sequence[str]:
        """Return the addresses of a name; none if it has none or the answer takes too long."""
        if is_address(host):
            return [host]
        with suppress(OSError), anyio.move_on_after(RESOLVE_TIME):
            return await self.outside.resolve(host)
        return []

    def _public(self, addresses: Sequence[str]) -> Sequence[str]:
        """Return the public addresses that are not this machine's.

        Raise Refused if none is left.
        """
        reasons = {address: self._why_not(address) for address in addresses}
        found = [address for address, reason in reasons.items() if reason is None]
        if not found and reasons:
            address, reason = next(iter(reasons.items()))
            raise Refused(f"{address} {reason}", "rule")
        return found

    def _why_not(self, address: str) -> str | None:
        if self.outside.is_here(address):
            return address_refusal(address) or "is an address of this machine itself"
        return address_refusal(address)


def _read(host: str) -> str:
    try:
        return read_host(host)
    except ValueError as error:
        raise Refused(str(error), "rule") from None
