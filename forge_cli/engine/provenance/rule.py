"""The rule: a pure function of a call, what it can do, what the person said and what was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Protocol

from msgspec import Struct

from forge_cli.core.approval import ValueOrigin
from forge_cli.engine.provenance.named import NamedCall
from forge_cli.engine.provenance.words import host_of, reaches

Effect = Literal["none", "undoable", "reads", "command", "lasting"]
"""What a call can do, from nothing to what cannot be taken back.

``reads``: it only reads, but its arguments leave the machine. ``command``: a trial can show whether
it can be undone.
"""


class Words(Protocol):
    """The words of a session."""

    def is_known(self, part: str) -> bool:
        """Return True if the person or a trusted source has a normalised value."""
        ...

    def is_from_network(self, part: str) -> bool:
        """Return True if a page or server brought a value before the session wrote it."""
        ...

    def is_said(self, stem: str) -> bool:
        """Return True if the person typed a word with this stem."""
        ...

    def origin(self, argument: str, part: str) -> ValueOrigin:
        """Return where a value first appeared."""
        ...


class Finding(Struct, frozen=True):
    """The answer of the rule: allowed if there is no reason to ask."""

    reasons: tuple[ValueOrigin, ...] = ()
    """Each value that nobody named, or the call itself."""

    @property
    def asks(self) -> bool:
        return bool(self.reasons)

    @property
    def values(self) -> tuple[str, ...]:
        """The values that the person can call theirs."""
        return tuple(dict.fromkeys(each.value for each in self.reasons if each.argument))


ALLOWED = Finding()


def decide(effect: Effect, call: NamedCall, words: Words) -> Finding:
    """Return whether a call asks after untrusted text was read, with a reason per argument.

    A call whose effect cannot be undone is allowed only if the person typed what it does, and every
    word that decides whom it reaches is the person's or a trusted source's. A call without any such
    word asks.
    """
    if effect in ("none", "undoable"):
        return ALLOWED
    if effect == "reads":
        return Finding(tuple(_unknown_addresses(call, words)))
    return Finding((*_unnamed_deeds(call, words), *_unknown_words(call, words)))


def _unnamed_deeds(call: NamedCall, words: Words) -> Iterator[ValueOrigin]:
    if call.unreadable is not None:
        yield ValueOrigin("", f"its words cannot be read: {call.unreadable}")
    elif not call.authority and not call.named_by_deed:
        yield ValueOrigin("", f"{call.deeds[0].title}, which names nobody")
    for deed in call.deeds:
        if not any(map(words.is_said, deed.stems)):
            yield ValueOrigin("", deed.title)
        for hard in deed.hard:
            if not words.is_said(hard):
                yield ValueOrigin("", f"{deed.title} with {hard}")


def _unknown_words(call: NamedCall, words: Words) -> Iterator[ValueOrigin]:
    for each in call.authority:
        if not _is_known(each.part, words):
            yield words.origin(each.argument, each.part)


def _unknown_addresses(call: NamedCall, words: Words) -> Iterator[ValueOrigin]:
    """Yield addresses that the session made up: they could carry away what it has read.

    A link that a page brought is the same for every reader.
    """
    for each in call.authority:
        if not reaches(each.part):
            continue
        if not _is_known(each.part, words) and not words.is_from_network(each.part):
            yield words.origin(each.argument, each.part)


def _is_known(part: str, words: Words) -> bool:
    if words.is_known(part):
        return True
    # Who names a host names its pages.
    host = host_of(part)
    return host is not None and host != part and words.is_known(host)
