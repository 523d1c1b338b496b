"""Grants of a person for the rest of a session: very calls and rules, and what more could be allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from forge_cli.core.approval import (
    THIS_CALL,
    ApprovalRequest,
    GrantOffer,
    GrantRule,
    Needs,
    Verdict,
    fingerprint,
    unique,
)
from forge_cli.core.events import SessionGrant
from forge_cli.core.text import cut
from forge_cli.core.wire import jsonable
from forge_cli.schema.tool import Tool

_ARGS = 200
"""Characters of the args of a call that is allowed by itself."""


def own_rules(own: Verdict, toolset: str) -> Needs:
    """The rules that a tool offers, each in the section of its own toolset; none where one need has none."""
    needs = [[_own_rule(rule, toolset) for rule in need] for need in own.grants]
    return needs if all(needs) else ()


def _own_rule(rule: GrantRule, toolset: str) -> GrantRule:
    user_at = ("policy", toolset, *rule.user_at) if rule.user_at else None
    return GrantRule(("toolsets", toolset, *rule.at), rule.says, rule.title, user_at)


def with_keys(verdict: Verdict, tool: Tool, bound_to: str) -> Verdict:
    """The verdict, with what each of its rules is remembered by."""
    needs = [[replace(rule, key=_rule_key(rule, tool, bound_to)) for rule in need] for need in verdict.grants]
    return replace(verdict, grants=needs)


def _rule_key(rule: GrantRule, tool: Tool, bound_to: str) -> str:
    """The identity of a grant: a rule on the section of a toolset is bound to the content of the tool as well."""
    of_tool = rule.at[0] == "toolsets"
    return fingerprint(
        worker=bound_to,
        source=str(tool.source) if of_tool else "",
        digest=tool.digest if of_tool else None,
        tool="",
        args={"at": rule.at, "says": rule.says},
    )


def offers_for(needs: Needs) -> list[GrantOffer]:
    """Offers that would allow a call, the narrowest first: each need met by its first rule, then by its next."""
    levels = range(max(map(len, needs), default=0))
    return list(unique(GrantOffer.of(need[min(level, len(need) - 1)] for need in needs) for level in levels))


class AskedCall(Struct, frozen=True):
    """The essence of a call that asks: its identity (None where it cannot be remembered), and what would allow it."""

    fingerprint: str | None
    needs: Needs = ()
    changed: GrantOffer | None = None
    """The folder in which a trial of it changed something, where that can be allowed."""


class Given(Struct, frozen=True):
    """One grant, and what it is remembered by."""

    grant: SessionGrant
    keys: frozenset[str] = frozenset()
    below: GrantOffer | None = None

    @classmethod
    def of(cls, offer: GrantOffer, call: AskedCall, request: ApprovalRequest) -> Given:
        if offer.below:
            return cls(SessionGrant(request.tool_name, offer.text), below=offer)
        if offer.rules:
            rules = tuple(str(rule) for rule in offer.rules)
            return cls(SessionGrant(request.tool_name, offer.text, rules), frozenset(_keys(offer.rules)))
        args = " ".join(f"{name}={json.dumps(jsonable(value))}" for name, value in request.args.items())
        return cls(SessionGrant(request.tool_name, cut(args, _ARGS, "end")), frozenset([str(call.fingerprint)]))


class SessionGrants(Struct):
    """The grants of one worker in one session, in the order in which they were given."""

    all: list[Given] = field(default_factory=list)
    _asked: list[tuple[str | None, list[set[str]], GrantOffer | None]] = field(default_factory=list)
    """Every call so far that somebody was asked about."""

    @property
    def _given(self) -> set[str]:
        return {key for each in self.all for key in each.keys}

    def covering(self, call: AskedCall) -> GrantOffer | None:
        """The grant that allows a call: of this call itself, or of a rule for everything about it that asks."""
        given = self._given
        rules = [next((rule for rule in need if rule.key in given), None) for need in call.needs]
        found = [rule for rule in rules if rule is not None]
        if found and len(found) == len(rules):
            return GrantOffer.of(found)
        if call.fingerprint in given:
            return THIS_CALL
        return next((each.below for each in self.all if each.below and _is_below(call.changed, each.below)), None)

    def offers(self, call: AskedCall) -> tuple[GrantOffer, ...]:
        """Grants that could be given for a call, narrowest first, each with how many calls it would have covered."""
        given = self._given
        missing = [need for need in call.needs if given.isdisjoint(_keys(need))]
        own = [THIS_CALL] if call.fingerprint else []
        own += [call.changed] if call.changed else []
        return tuple(replace(offer, covers=self._covers(offer, call)) for offer in (*own, *offers_for(missing)))

    def _covers(self, offer: GrantOffer, call: AskedCall) -> int:
        if offer.below:
            return sum(_is_below(changed, offer) for _, _, changed in self._asked)
        if not offer.rules:
            return sum(fingerprint == call.fingerprint for fingerprint, _, _ in self._asked)
        given = self._given
        with_it = given | _keys(offer.rules)
        return sum(_all_met(needs, with_it) and not _all_met(needs, given) for _, needs, _ in self._asked)

    def note(self, call: AskedCall) -> None:
        """Somebody is asked about a call."""
        self._asked.append((call.fingerprint, [_keys(need) for need in call.needs], call.changed))

    def revoke(self, gone: Callable[[int, SessionGrant], bool]) -> list[SessionGrant]:
        """Take back every grant of which this is true, by its number from 1 on."""
        taken = [each for number, each in enumerate(self.all, 1) if gone(number, each.grant)]
        self.all = [each for each in self.all if each not in taken]
        return [each.grant for each in taken]

    def give(self, offer: GrantOffer | None, call: AskedCall, request: ApprovalRequest) -> GrantOffer | None:
        """Remember an offer, or identical calls where none is named; what was not offered is not remembered."""
        offered = request.offers or ()
        chosen = next((each for each in offered if each == (offer or THIS_CALL)), None if offer else THIS_CALL)
        if chosen is None or not (chosen.rules or chosen.below or call.fingerprint):
            return None
        self.all.append(Given.of(chosen, call, request))
        return replace(chosen, covers=None, written=offer.written if offer else None)


def _is_below(changed: GrantOffer | None, granted: GrantOffer) -> bool:
    return changed is not None and f"{changed.below}/".startswith(f"{granted.below}/")


def _all_met(needs: Sequence[set[str]], given: set[str]) -> bool:
    return bool(needs) and not any(given.isdisjoint(need) for need in needs)


def _keys(rules: Iterable[GrantRule]) -> set[str]:
    return {rule.key for rule in rules}
