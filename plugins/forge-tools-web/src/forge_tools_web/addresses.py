"""Addresses of the public internet, and names that resolve to them."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import anyio

from forge_cli import ToolError

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the numeric addresses of a host and a port."""

# The registries of special-purpose addresses, because ``is_global`` differs between releases of
# Python.
SPECIAL_V4 = [
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "168.63.129.16/32",  # public by number, yet the host of a virtual machine answers there
    )
]
GLOBAL_V6 = IPv6Network("2000::/3")
SPECIAL_V6 = [IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20")]
NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Return True if an address, and any IPv4 address inside it, is public."""
    inner = _inside(address)
    if inner is not None:
        return is_public(inner)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in SPECIAL_V4)
    return address in GLOBAL_V6 and not any(address in network for network in SPECIAL_V6)


def _inside(address: Address) -> IPv4Address | None:
    """Return the IPv4 address inside a mapped, NAT64 or 6to4 address."""
    if isinstance(address, IPv4Address):
        return None
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def literal(host: str) -> Address | None:
    """Return the address if a host is one, in any notation such as ``127.1`` or ``0x7f000001``."""
    text = host.removesuffix(".")
    try:
        return ip_address(text)
    except ValueError:
        pass
    # inet_aton ignores everything behind a space.
    if not text or not text.isascii() or " " in text:
        return None
    try:
        return IPv4Address(socket.inet_aton(text))
    except OSError:
        return None


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses that the operating system finds for a host."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def addresses_of(
    host: str, port: int, resolve: Resolve, *, allow_private: bool
) -> list[Address]:
    """Resolve a host once; raise ToolError unless all its addresses may be connected to."""
    known = literal(host)
    try:
        if known is not None:
            found = [known]
        else:
            found = [ip_address(text) for text in await resolve(host, port)]
    except (OSError, UnicodeError):
        raise ToolError(f"the host {host!r} does not exist or cannot be resolved now") from None
    if not found:
        raise ToolError(f"the name {host!r} has no address")
    if not allow_private:
        refuse_private(host, found)
    return found


def refuse_private(host: str, addresses: Sequence[Address]) -> None:
    """Raise ToolError if one of the addresses is not public."""
    for address in addresses:
        if not is_public(address):
            verb = "is" if literal(host) else "resolves to"
            raise ToolError(
                f"{host} {verb} a private or local address; only the public internet can be reached"
            )
