"""Rules for the network: the names and ports that a worker's commands reach without asking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from forge_cli.sandbox.names import shown
from forge_cli.sandbox.network.hosts import authority, is_address, read_host, read_port, refusal

DEFAULT_PORTS = frozenset({80, 443})
_LOCAL = "localhost"


@dataclass(frozen=True)
class NetworkRule:
    """One entry of ``sandbox.network``."""

    host: str
    ports: frozenset[int] = DEFAULT_PORTS
    subdomains: bool = False
    """It covers every name below the host, and not the host itself."""

    @classmethod
    def read(cls, text: str) -> Self:
        """``api.example.org``, ``*.example.com:443`` or an address; a ValueError is a sentence for its author."""
        if any(sign in text for sign in "/@?#"):
            raise ValueError(f"{shown(text)} is not a name; write api.example.org or api.example.org:8080, no URL")
        name, port = _split(text)
        ports = DEFAULT_PORTS if port is None else frozenset({read_port(port)})
        if name == "*":
            raise ValueError("'*' would cover every name; write 'network: true' for the whole network")
        host = read_host(name.removeprefix("*."))
        if name.startswith("*.") and is_address(host):
            raise ValueError(f"{shown(text)}: addresses have no names below them")
        reason = refusal(host) if is_address(host) else _is_local(host)
        if reason:
            raise ValueError(f"{shown(text)} can never be reached: it {reason}")
        return cls(host, ports, subdomains=name.startswith("*."))

    def covers(self, host: str, port: int) -> bool:
        """Whether a host, as ``read_host`` gives it, may be reached at a port."""
        same = host.endswith(f".{self.host}") if self.subdomains else host == self.host
        return same and port in self.ports

    def common(self, other: NetworkRule) -> NetworkRule | None:
        """The rule for what both cover, if there is any."""
        narrow = self if self._lies_within(other) else other if other._lies_within(self) else None
        ports = self.ports & other.ports
        return replace(narrow, ports=ports) if narrow and ports else None

    def _lies_within(self, other: NetworkRule) -> bool:
        if other.subdomains:
            return self.host.endswith(f".{other.host}") or (self.subdomains and self.host == other.host)
        return not self.subdomains and self.host == other.host

    def __str__(self) -> str:
        name = f"*.{self.host}" if self.subdomains else self.host
        if self.ports == DEFAULT_PORTS:
            return f"[{name}]" if ":" in name else name
        return authority(name, min(self.ports))


@dataclass(frozen=True)
class NetworkRules:
    """All entries of a worker."""

    rules: tuple[NetworkRule, ...] = ()

    @classmethod
    def read(cls, texts: Iterable[str]) -> Self:
        return cls(tuple(map(NetworkRule.read, texts)))

    def covers(self, host: str, port: int) -> bool:
        return any(rule.covers(host, port) for rule in self.rules)

    def names(self) -> list[str]:
        """As they would be written."""
        return list(map(str, self.rules))


Network = bool | NetworkRules
"""The network of a worker's commands: everything, nothing, or names."""


def narrowest(own: Network, parent: Network) -> Network:
    """The network of a child worker, no wider than that of its parent."""
    if own is False or parent is False:
        return False
    if own is True or parent is True:
        return parent if own is True else own
    shared = (rule.common(other) for rule in own.rules for other in parent.rules)
    return NetworkRules(tuple(dict.fromkeys(rule for rule in shared if rule)))


def _split(text: str) -> tuple[str, str | None]:
    """The name and the port, if there is one."""
    closed = text.rfind("]") + 1
    name, colon, port = text[closed:].rpartition(":")
    if ":" in name:
        raise ValueError(
            f"{shown(text)} is not a name; an IPv6 address is written in brackets: '[2001:4860::8888]:443'"
        )
    return (text[:closed] + name, port) if colon else (text, None)


def _is_local(host: str) -> str | None:
    local = host == _LOCAL or host.endswith(f".{_LOCAL}")
    return "is a name of this machine itself" if local else None
