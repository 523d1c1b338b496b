"""A test network: host names, addresses that all lead to one local server, and a person to ask."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
from anyio.abc import ByteStream

from forge_cli.core.approval import ApprovalDecision, DecidedBy
from forge_cli.sandbox.network.access import Destination

PUBLIC = "93.184.216.34"
NAMES = {
    "api.example.org": [PUBLIC],
    "other.example.com": [PUBLIC],
    "rebound.example.org": ["10.1.2.3"],
    "half.example.org": ["192.168.0.1", PUBLIC],
    "six.example.org": ["2606:4700::1111"],
    "here.example.org": ["8.8.4.4"],
    "localhost": ["127.0.0.1", "::1"],
}


NO = ApprovalDecision(False, note="not that one")


@dataclass
class Away:
    """Resolves known names; a connection to any address leads to the local port."""

    port: int = 0
    looked_up: list[str] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)

    async def resolve(self, host: str) -> Sequence[str]:
        self.looked_up.append(host)
        if host not in NAMES:
            raise OSError("no such name")
        return NAMES[host]

    def is_here(self, address: str) -> bool:
        return address == "8.8.4.4"

    async def connect(self, address: str, port: int) -> ByteStream:
        self.connected.append(f"{address} {port}")
        if not self.port:
            raise OSError("nobody listens")
        return await anyio.connect_tcp("127.0.0.1", self.port)


@dataclass
class Person:
    """Says yes or no to everything, and hears of every connection."""

    answer: ApprovalDecision = NO
    asked: list[Destination] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    async def ask(self, wanted: Destination) -> ApprovalDecision:
        self.asked.append(wanted)
        await anyio.lowlevel.checkpoint()
        return self.answer

    def record(
        self, wanted: Destination, *, allowed: bool, by: DecidedBy, reason: str | None
    ) -> None:
        self.heard.append(
            f"{wanted} {'yes' if allowed else 'no'} by {by}{f': {reason}' if reason else ''}"
        )
