"""Network rules of a worker, normalized hosts and ports, and addresses that are always refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.sandbox.names import shown

NAME_MAX = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_PRIVATE = "is an address of a private network"
_SELF = "is an address of this machine itself"
_OTHER = "is not an address of a public host"

_LOCAL_LINK = "is an address of the local link, where clouds keep credentials"
_OTHER_SPELLING = "is an IPv4 address in another spelling"

_REFUSED_IPV4 = {
    IPv4Network("10.0.0.0/8"): _PRIVATE,
    IPv4Network("172.16.0.0/12"): _PRIVATE,
    IPv4Network("192.168.0.0/16"): _PRIVATE,
    IPv4Network("100.64.0.0/10"): _PRIVATE,  # carrier-grade NAT
    IPv4Network("0.0.0.0/8"): _SELF,
    IPv4Network("127.0.0.0/8"): _SELF,
    IPv4Network("169.254.0.0/16"): _LOCAL_LINK,
    IPv4Network("168.63.129.16/32"): _LOCAL_LINK,  # the host of machines in Azure
    IPv4Network("224.0.0.0/4"): "is a multicast address",
    IPv4Network("192.0.0.0/24"): _OTHER,
    IPv4Network("192.0.2.0/24"): _OTHER,
    IPv4Network("192.88.99.0/24"): _OTHER,
    IPv4Network("198.18.0.0/15"): _OTHER,
    IPv4Network("198.51.100.0/24"): _OTHER,
    IPv4Network("203.0.113.0/24"): _OTHER,
    IPv4Network("240.0.0.0/4"): _OTHER,
}
_REFUSED_IPV6 = {
    IPv6Network("::1/128"): _SELF,
    IPv6Network("::/128"): _SELF,
    IPv6Network("::ffff:0:0/96"): _OTHER_SPELLING,
    IPv6Network("64:ff9b::/96"): _OTHER_SPELLING,  # NAT64
    IPv6Network("64:ff9b:1::/48"): _OTHER_SPELLING,
    IPv6Network("2002::/16"): _OTHER_SPELLING,  # 6to4
    IPv6Network("fc00::/7"): _PRIVATE,
    IPv6Network("fec0::/10"): _PRIVATE,
    IPv6Network("fe80::/10"): "is an address of the local link",
    IPv6Network("ff00::/8"): "is a multicast address",
    IPv6Network("2001::/23"): _OTHER,
    IPv6Network("2001:db8::/32"): _OTHER,
    IPv6Network("3fff::/20"): _OTHER,
}
_PUBLIC_IPV6 = IPv6Network("2000::/3")
DEFAULT_PORTS = frozenset({80, 443})
_LOCAL = "localhost"


def read_host(text: str) -> str:
    """Normalize a name or an address; raise a ValueError with the problem.

    Names become lower-case ASCII without a trailing dot. A name that ends in a number must be a
    plain IPv4 address, because resolvers also accept spellings like ``0x7f.1`` and ``2130706433``.
    """
    if text.startswith("[") and text.endswith("]"):
        return _read_ipv6(text[1:-1])
    name = text if text.isascii() else _to_ascii(text)
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > NAME_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{shown(text)} is not a valid host name")
    # Only a name that ends in a number can be an address in disguise.
    if not _NUMBER.fullmatch(labels[-1]):
        return name
    try:
        return str(IPv4Address(name))
    except ValueError:
        raise ValueError(f"{shown(text)} is neither a plain IPv4 address nor a name") from None


def read_port(text: str) -> int:
    """Return a port; raise a ValueError if it is invalid."""
    if not _PORT.fullmatch(text) or int(text) > 65535:
        raise ValueError(f"{shown(text)} is not a valid port")
    return int(text)


def is_address(host: str) -> bool:
    """Return True if a host from ``read_host`` is an address."""
    return ":" in host or host.rpartition(".")[2].isdigit()


def host_and_port(host: str, port: int) -> str:
    """Return ``name:443``, with an IPv6 address in brackets."""
    if ":" in host:
        return f"[{host}]:{port}"
    return f"{host}:{port}"


def address_refusal(address: str) -> str | None:
    """Return why no command may reach an address, or None for a public host."""
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        return next((reason for network, reason in _REFUSED_IPV4.items() if found in network), None)
    named = next((reason for network, reason in _REFUSED_IPV6.items() if found in network), None)
    if named is None and found not in _PUBLIC_IPV6:
        return _OTHER
    return named


def _read_ipv6(text: str) -> str:
    try:
        # A scope such as %eth0 names an interface of this machine.
        if "%" not in text:
            return str(IPv6Address(text))
    except ValueError:
        pass
    raise ValueError(f"{shown(text)} is not an IPv6 address")


def _to_ascii(text: str) -> str:
    import idna

    try:
        return idna.encode(text, uts46=True).decode()
    except UnicodeError:
        raise ValueError(f"{shown(text)} is not a valid host name") from None


class NetworkRule(Struct, frozen=True):
    """One entry of ``sandbox.network``."""

    host: str
    ports: frozenset[int] = DEFAULT_PORTS
    subdomains: bool = False
    """True if it covers every name below the host, but not the host itself."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse ``api.example.org``, ``*.example.com:443`` or an address.

        Raise a ValueError if invalid.
        """
        if any(sign in text for sign in "/@?#"):
            raise ValueError(
                f"{shown(text)} is not a host name; write api.example.org without URL parts"
            )
        name, port = _split(text)
        ports = DEFAULT_PORTS if port is None else frozenset({read_port(port)})
        if name == "*":
            raise ValueError("'*' covers every name; write 'network: true' for the whole network")
        host = read_host(name.removeprefix("*."))
        if name.startswith("*.") and is_address(host):
            raise ValueError(f"{shown(text)}: an address has no names below it")
        reason = address_refusal(host) if is_address(host) else _is_local(host)
        if reason:
            raise ValueError(f"{shown(text)} can never be reached: it {reason}")
        return cls(host, ports, subdomains=name.startswith("*."))

    def covers(self, host: str, port: int) -> bool:
        """Return True if a host from ``read_host`` may be reached at a port."""
        same = host.endswith(f".{self.host}") if self.subdomains else host == self.host
        return same and port in self.ports

    def common(self, other: NetworkRule) -> NetworkRule | None:
        """Return a rule for what both rules cover, or None."""
        ports = self.ports & other.ports
        if not ports:
            return None
        if self._lies_within(other):
            return replace(self, ports=ports)
        if other._lies_within(self):
            return replace(other, ports=ports)
        return None

    def _lies_within(self, other: NetworkRule) -> bool:
        if other.subdomains:
            return self.host.endswith(f".{other.host}") or (
                self.subdomains and self.host == other.host
            )
        return not self.subdomains and self.host == other.host

    def __str__(self) -> str:
        name = f"*.{self.host}" if self.subdomains else self.host
        if self.ports == DEFAULT_PORTS:
            return f"[{name}]" if ":" in name else name
        return host_and_port(name, min(self.ports))


class NetworkRules(Struct, frozen=True):
    """All entries of a worker."""

    rules: tuple[NetworkRule, ...] = ()

    @classmethod
    def read(cls, texts: Iterable[str]) -> Self:
        return cls(tuple(map(NetworkRule.read, texts)))

    def covers(self, host: str, port: int) -> bool:
        return any(rule.covers(host, port) for rule in self.rules)

    def names(self) -> list[str]:
        """Return the rules as they are written in a file."""
        return list(map(str, self.rules))


Network = bool | NetworkRules
"""The network of a worker's commands: everything, nothing, or some names."""


def narrowest_network(own: Network, parent: Network) -> Network:
    """Return the network of a child worker, at most that of its parent."""
    if own is False or parent is False:
        return False
    if own is True:
        return parent
    if parent is True:
        return own
    shared: dict[NetworkRule, None] = {}
    for rule in own.rules:
        common = map(rule.common, parent.rules)
        shared.update(dict.fromkeys(filter(None, common)))
    return NetworkRules(tuple(shared))


def _split(text: str) -> tuple[str, str | None]:
    """Split off the port, if there is one."""
    # Colons in brackets belong to an IPv6 address.
    closed = text.rfind("]") + 1
    name, colon, port = text[closed:].rpartition(":")
    if ":" in name:
        raise ValueError(
            f"{shown(text)} is not a host name; write an IPv6 address as '[2001:db8::1]:443'"
        )
    if colon:
        return (text[:closed] + name, port)
    return (text, None)


def _is_local(host: str) -> str | None:
    local = host == _LOCAL or host.endswith(f".{_LOCAL}")
    if local:
        return "is a name of this machine itself"
    return None
