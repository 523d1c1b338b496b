"""Grants: rules, as they could stand in a policy, that a person may give for a session or write into a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forge_cli.core.wire import wire

NEW_ENTRY = "-"
"""In the place of a rule: a new entry at the end of a list."""
PRE_APPROVED = "preApproved"

_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_AMBIGUOUS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""What some reader of YAML takes for something else than text."""


@dataclass(frozen=True)
class GrantRule:
    """One rule: where it would stand in a policy, and what it says there.

    A tool names places in its own section: ``GrantRule(("hosts", "-"), "example.org", "pages of example.org")``.
    """

    at: tuple[str, ...]
    """The place in a worker file; an entry of a list goes by its ``name``, and ``-`` is a new entry."""
    says: Any
    title: str = field(compare=False)
    """What it allows, in a few words."""
    user_at: tuple[str, ...] | None = field(default=None, compare=False)
    """The place in the user's own config.yaml, where such a rule works there, too."""
    user_says: Any = field(default=None, compare=False)
    """What it says there, where that is something else."""
    entry: Mapping[str, Any] | None = field(default=None, compare=False)
    """The whole entry that ``at`` leads through, for a file that does not have it yet."""
    key: str = field(default="", compare=False, repr=False, metadata={"wire": False})
    """What a grant of it is remembered by; the gate sets it."""

    def __str__(self) -> str:
        if self.at[-1:] == (NEW_ENTRY,):
            return f"{'.'.join(self.at[:-1])}: {flow([self.says])}"
        return f"{'.'.join(self.at)}: {flow(self.says)}"

    def wire(self) -> dict[str, Any]:
        """As a JSON object."""
        return wire(self)


Needs = Sequence[Sequence[GrantRule]]
"""For each thing about a call that asks, the rules that would allow it, the narrowest first."""


@dataclass(frozen=True)
class GrantOffer:
    """Something that a person may allow for the rest of a session; without rules and a folder it is this exact call."""

    text: str
    rules: tuple[GrantRule, ...] = ()
    below: str | None = None
    """The folder below which commands may change files that were tried first, in place of rules."""
    covers: int | None = field(default=None, compare=False)
    """How many calls of this session it would have allowed so far."""
    written: str | None = field(default=None, compare=False)
    """The file that the rules were written to."""

    @classmethod
    def of(cls, rules: Iterable[GrantRule]) -> GrantOffer:
        """What one rule, or several together, would allow."""
        kept = tuple(unique(rules))
        return cls(" and ".join(rule.title for rule in kept), kept)

    def wire(self) -> dict[str, Any]:
        """As a JSON object."""
        return wire(self)


THIS_CALL = GrantOffer("this exact call")


def unique(things: Iterable[Any]) -> Iterator[Any]:
    """Each once; rules may hold mappings, which have no hash."""
    seen: list[Any] = []
    for thing in things:
        if thing not in seen:
            seen.append(thing)
            yield thing


def flow(value: Any) -> str:
    """A value as YAML on one line, the way people write rules."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{flow(key)}: {flow(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(flow, value)) + "]"
        case str() if _PLAIN.fullmatch(value) and value.lower() not in _AMBIGUOUS:
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)
