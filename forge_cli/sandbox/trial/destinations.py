"""The destinations of a trial: every requested name gets an address without a server.

The resolver here gives each name its own address, on the loopback of an otherwise empty network.
The refused connections show the ports. A bare interpreter imports this module, like ``enter``.
"""

from __future__ import annotations

import _ctypes
import _socket as socket
import fcntl
import posix
import sys
import time
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RECORDED = 20
"""Names, and destinations, that are remembered."""
# Numbers of the kernel, which Python does not define.
_SIOCSIFADDR = 0x8916
_SIOCSIFFLAGS = 0x8914
_SIOCSIFNETMASK = 0x891C
_IFF_UP = 1
_OWN_ADDRESS = "192.0.2.1"
"""An address for documentation: programs do not try to connect with loopback addresses only."""
_NAMES = "198.18.0.0"
"""The first of the addresses for benchmarks, which no real host has."""
_NAMES_MASK = "255.254.0.0"
_DOMAIN = 53
_ADDRESS_RECORD = 1
_HEADER = 12
_ATTACH_FILTER = 26
_PACKET_INFO = 8
_ICMP_UNREACHABLE = 3
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_REFUSALS = (
    (0xB1, 0, 0, 0),  # skip the IP header
    (0x50, 0, 0, 13),
    (0x15, 0, 3, 0x14),  # RST and ACK
    (0x40, 0, 0, 4),
    (0x15, 0, 1, 0),  # of a connection that was never established
    (0x06, 0, 0, 0xFFFF),
    (0x06, 0, 0, 0),
)
"""A kernel filter for the TCP packets that refuse a connection."""


def _request(interface: str, value: bytes) -> bytes:
    return interface.encode().ljust(16, b"\0") + value.ljust(16, b"\0")


def _address(text: str) -> bytes:
    return int(socket.AF_INET).to_bytes(2, sys.byteorder) + bytes(2) + socket.inet_aton(text)


class Destinations:
    """A resolver for all names that records refused connections."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        """The name for each address that was given out."""
        self._resolver: socket.socket | None = None
        self._seen: list[socket.socket] = []
        self.was_asked = False
        """True if anything was sent to the resolver."""
        self.asked_at: float | None = None
        """The time of the first name query, on the clock of ``time.monotonic``."""

    def bring_up(self) -> None:
        """Start the resolver.

        If the machine does not allow it, only the wish for a network is noticed.
        """
        any_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _request("lo", _IFF_UP.to_bytes(2, sys.byteorder)))
        fcntl.ioctl(any_socket, _SIOCSIFADDR, _request("lo:1", _address(_OWN_ADDRESS)))
        any_socket.close()
        try:
            self._add_addresses()
            resolver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
            resolver.setsockopt(socket.IPPROTO_IP, _PACKET_INFO, 1)
            fcntl.fcntl(resolver, fcntl.F_SETOWN, posix.getpid())
            fcntl.fcntl(resolver, fcntl.F_SETFL, posix.O_NONBLOCK | posix.O_ASYNC)
            resolver.bind(("0.0.0.0", _DOMAIN))  # noqa: S104
            self._resolver = resolver
            self._seen = [
                socket.socket(socket.AF_INET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)
                for protocol in (socket.IPPROTO_TCP, socket.IPPROTO_ICMP)
            ]
            _attach(self._seen[0], _REFUSALS)
        except OSError:
            return

    def _add_addresses(self) -> None:
        any_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        fcntl.ioctl(any_socket, _SIOCSIFADDR, _request("lo:2", _address(_NAMES)))
        fcntl.ioctl(any_socket, _SIOCSIFNETMASK, _request("lo:2", _address(_NAMES_MASK)))
        for number, server in enumerate(_resolvers(), 3):
            fcntl.ioctl(any_socket, _SIOCSIFADDR, _request(f"lo:{number}", server))
            fcntl.ioctl(
                any_socket, _SIOCSIFNETMASK, _request(f"lo:{number}", _address("255.255.255.255"))
            )
        any_socket.close()

    def answer(self) -> bool:
        """Answer some waiting queries with addresses of their own.

        Return True if there may be more.

        SIGIO announces queries.
        """
        resolver = self._resolver
        if resolver is None:
            return False
        for _ in range(MAX_RECORDED):
            try:
                # Without extensions, a query has at most 512 bytes.
                asked, packet_info, _, whom = resolver.recvmsg(512, 64)
            except OSError:
                return False  # nothing is waiting
            self.was_asked = True
            try:
                # Programs ignore an answer from another address than the one they asked.
                source = bytes(4) + packet_info[0][2][8:12] + bytes(4)
                ancillary = [(socket.IPPROTO_IP, _PACKET_INFO, source)]
                resolver.sendmsg([self._answer_to(asked)], ancillary, 0, whom)
            except (OSError, ValueError, IndexError):
                continue  # a command can send anything
        return True

    def _answer_to(self, asked: bytes) -> bytes:
        labels = []
        at = _HEADER
        while asked[at]:
            labels.append(
                bytes(letter for letter in asked[at + 1 : at + 1 + asked[at]] if letter in _LETTERS)
            )
            at += 1 + asked[at]
        question = asked[_HEADER : at + 5]
        name = b".".join(labels).decode().lower()[:253]
        known = next((address for address, other in self._names.items() if other == name), None)
        if known is None and len(self._names) < MAX_RECORDED:
            number = int.from_bytes(socket.inet_aton(_NAMES), "big") + len(self._names) + 1
            known = number.to_bytes(4, "big")
            self._names[known] = name
            self.asked_at = self.asked_at or time.monotonic()
        has_address = known is not None and asked[at + 1 : at + 3] == _ADDRESS_RECORD.to_bytes(
            2, "big"
        )
        record = b""
        if known and has_address:
            # A reference to the name in the question, type and class, no lifetime, four bytes.
            record = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + known
        return asked[:2] + b"\x81\x80\0\1" + bytes([0, bool(record)]) + bytes(4) + question + record

    def reached(self) -> list[str]:
        """Return the destinations: host and port, or only a name without a connection."""
        while self.answer():
            pass
        places = dict.fromkeys(chain.from_iterable(map(_refused, self._seen)))
        went = {address for address, _ in places}
        found = [
            f"{self._names.get(address) or socket.inet_ntoa(address)}:{port}"
            for address, port in places
        ]
        found += [name for address, name in self._names.items() if address not in went]
        return found[:MAX_RECORDED]


def _resolvers() -> Iterator[bytes]:
    """Yield the name servers that a command would ask."""
    with open("/etc/resolv.conf") as settings:
        words = [line.split()[:2] for line in settings]
    for word in words:
        # Addresses of the loopback are there already, and only IPv4 is simulated.
        if word[:1] == ["nameserver"] and "." in word[-1] and not word[-1].startswith("127."):
            yield _address(word[-1])


def _refused(seen: socket.socket) -> Iterator[tuple[bytes, int]]:
    """Yield the addresses and ports that refused a connection or a datagram."""
    while True:
        try:
            packet = seen.recv(128)
        except OSError:
            return
        # The header states its length in units of four bytes.
        body = packet[(packet[0] & 15) * 4 :]
        if packet[9] == socket.IPPROTO_TCP:
            yield packet[12:16], int.from_bytes(body[:2], "big")
        elif body[0] == _ICMP_UNREACHABLE:
            inner = body[8:]
            at = (inner[0] & 15) * 4
            source = int.from_bytes(inner[at : at + 2], "big")
            target = int.from_bytes(inner[at + 2 : at + 4], "big")
            # Otherwise, it is the resolver's answer to a program that has ended.
            if source != _DOMAIN:
                yield inner[16:20], target


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "B"


def _attach(seen: socket.socket, program: tuple[tuple[int, int, int, int], ...]) -> None:
    """Attach a kernel filter to a socket, so that it sees matching packets only."""
    order = sys.byteorder
    code = b"".join(
        what.to_bytes(2, order) + bytes([yes, no]) + value.to_bytes(4, order)
        for what, yes, no, value in program
    )
    kept = (_Byte * len(code)).from_buffer_copy(code)
    pointer = _ctypes.addressof(kept).to_bytes(8, order)
    # ``struct sock_fprog``: a length of 16 bits, padding, and a pointer.
    seen.setsockopt(
        socket.SOL_SOCKET, _ATTACH_FILTER, len(program).to_bytes(2, order) + bytes(6) + pointer
    )
