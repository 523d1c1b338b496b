"""Grants for the rest of a session, of exact calls and of rules, and offers of grants."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain

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
    without_kept,
)
from forge_cli.core.events import SessionGrant
from forge_cli.core.text import cut
from forge_cli.core.trial import TrialExtent
from forge_cli.core.wire import jsonable
from forge_cli.engine.gate.steps import AskedCall, ShownTrial
from forge_cli.schema.tool import Tool

MAX_ARGS = 200
"""The most characters of args in the text of a grant for one exact call."""


def own_rules(own: Verdict, toolset: str) -> Needs:
    """Return the rules that a tool offers, placed in the section of its toolset.

    Return none of them if a need has no rule.
    """
    needs = [[_own_rule(rule, toolset) for rule in need] for need in own.grants]
    return needs if all(needs) else ()


def _own_rule(rule: GrantRule, toolset: str) -> GrantRule:
    user_at = None
    if rule.user_at:
        user_at = ("policy", toolset, *rule.user_at)
    beside = None
    if rule.beside:
        beside = _own_rule(rule.beside, toolset)
    return replace(rule, at=("toolsets", toolset, *rule.at), user_at=user_at, beside=beside)


def with_keys(verdict: Verdict, tool: Tool, bound_to: str) -> Verdict:
    """Return the verdict with the key by which each of its rules is remembered."""
    needs = [[_with_key(rule, tool, bound_to) for rule in need] for need in verdict.grants]
    return replace(verdict, grants=needs)


def _with_key(rule: GrantRule, tool: Tool, bound_to: str) -> GrantRule:
    beside = None
    if rule.beside:
        beside = _with_key(rule.beside, tool, bound_to)
    return replace(rule, key=_rule_key(rule, tool, bound_to), beside=beside)


def _rule_key(rule: GrantRule, tool: Tool, bound_to: str) -> str:
    """Return the identity of a grant.

    A rule of a toolset is also bound to the content of the tool.
    """
    source = ""
    digest = None
    if rule.at[0] == "toolsets":
        source = str(tool.source)
        digest = tool.digest
    return fingerprint(
        worker=bound_to,
        source=source,
        digest=digest,
        tool="",
        args={"at": rule.at, "says": rule.says},
    )


def offers_for(needs: Needs) -> list[GrantOffer]:
    """Return the offers that would allow a call, the narrowest first.

    The first offer meets each need by its first rule, the next one by its second rule, and so on.
    """
    needs = [[rule for rule in need if not rule.implied] for need in needs]
    levels = range(max(map(len, needs), default=0))
    offers = [GrantOffer.of(need[min(level, len(need) - 1)] for need in needs) for level in levels]
    first = offers[0].rules if offers else ()
    if more := [rule.beside for rule in first if rule.beside]:
        offers.append(GrantOffer.of([*first, *more]))
    return list(unique(offers))


class Given(Struct, frozen=True):
    """One grant with the keys by which it is remembered."""

    grant: SessionGrant
    keys: frozenset[str] = frozenset()
    below: GrantOffer | None = None
    extent: TrialExtent | None = None
    """The most that a trial may change to be applied without asking.

    None if the grant came without a trial.
    """

    @classmethod
    def of(cls, offer: GrantOffer, call: AskedCall, request: ApprovalRequest) -> Given:
        extent = call.trial.extent if call.trial else None
        # A rule that was written as it is allows more than trials; one with ``user_says``, of a
        # set, may not.
        if offer.written is not None and all(rule.user_says is None for rule in offer.rules):
            extent = None
        if offer.below:
            return cls(SessionGrant(request.tool_name, offer.text), below=offer, extent=extent)
        if offer.rules:
            rules = tuple(str(rule) for rule in offer.rules)
            granted = SessionGrant(request.tool_name, offer.text, rules)
            return cls(granted, frozenset(_keys(offer.rules)), extent=extent)
        args = " ".join(
            f"{name}={json.dumps(jsonable(value))}" for name, value in request.args.items()
        )
        text = cut(args, MAX_ARGS, "end")
        if extent is not None:
            text += extent.limits
        granted = SessionGrant(request.tool_name, text)
        return cls(granted, frozenset([str(call.fingerprint)]), extent=extent)


class SessionGrants(Struct):
    """The grants of one worker in one session, in the order in which they were given."""

    all: list[Given] = field(default_factory=list)
    _asked: list[tuple[str | None, list[set[str]], GrantOffer | None]] = field(default_factory=list)
    """Every call so far that asked."""
    _created: set[str] = field(default_factory=set)
    """Paths that granted trials created; later trials in the same folder may delete them."""

    @property
    def _real_keys(self) -> set[str]:
        """The keys of grants that allow calls without a trial."""
        return {*chain.from_iterable(each.keys for each in self.all if each.extent is None)}

    def covering(self, call: AskedCall) -> GrantOffer | None:
        """Return the grant that allows a call: of the call itself, or of a rule for each need.

        A grant that was given for a trial allows trials only, and only if they change no more than
        was granted.
        """
        if found := _met(call, self._real_keys):
            return found
        if call.trial is None:
            return None
        found = self._covering_folder(call, call.trial) or self._covering_trial(call, call.trial)
        if found and call.trial.extent:
            self._created |= call.trial.extent.made
        return found

    def _covering_folder(self, call: AskedCall, trial: ShownTrial) -> GrantOffer | None:
        """Return the grant of a folder with all changes of a trial.

        The trial may delete only what was shown when the grant was given, or was created since.
        """
        gone = frozenset[str]()
        if trial.extent:
            gone = trial.extent.deleted - self._created
        for each in self.all:
            if (
                each.below
                and _is_below(call.below, each.below)
                and each.extent
                and gone <= each.extent.deleted
            ):
                return each.below
        return None

    def _covering_trial(self, call: AskedCall, trial: ShownTrial) -> GrantOffer | None:
        wanted = {str(call.fingerprint), *(rule.key for rule in chain.from_iterable(call.needs))}
        keys = set(self._real_keys)
        granted = TrialExtent()
        for each in self.all:
            if each.extent is not None and not wanted.isdisjoint(each.keys):
                keys |= each.keys
                granted |= each.extent
        found = _met(call, keys)
        if found is None or trial.extent is None or not trial.extent.lies_within(granted):
            return None
        return replace(found, trials=True)

    def offers(self, call: AskedCall) -> tuple[GrantOffer, ...]:
        """Return the grants that could be given for a call, the narrowest first.

        Each has the number of earlier calls that it would have covered.
        """
        given = self._real_keys
        missing = [need for need in without_kept(call.needs) if given.isdisjoint(_keys(need))]
        offers: list[GrantOffer] = []
        if call.ungranted:
            return (THIS_CALL,) if call.fingerprint and not call.trial else ()
        if call.fingerprint:
            offers.append(THIS_CALL)
        if call.below:
            offers.append(call.below)
        offers += offers_for(missing)
        if call.trial:
            offers = list(_at_trial(offers, call.trial))
        return tuple(replace(offer, covers=self._covers(offer, call)) for offer in offers)

    def _covers(self, offer: GrantOffer, call: AskedCall) -> int | None:
        """Return how many earlier calls a grant would have covered.

        Return None if that depends on their changes.
        """
        if offer.below:
            return sum(_is_below(changed, offer) for _, _, changed in self._asked)
        if offer.trials or offer.lasting:
            return None
        if not offer.rules:
            return sum(fingerprint == call.fingerprint for fingerprint, _, _ in self._asked)
        given = self._real_keys
        with_it = given | _keys(offer.rules)
        return sum(
            _all_met(needs, with_it) and not _all_met(needs, given) for _, needs, _ in self._asked
        )

    def note(self, call: AskedCall) -> None:
        """Record that a call asks."""
        self._asked.append((call.fingerprint, [_keys(need) for need in call.needs], call.below))

    def revoke(self, gone: Callable[[int, SessionGrant], bool]) -> list[SessionGrant]:
        """Remove every grant for which ``gone`` returns True; it gets their numbers, from 1 on."""
        taken = [each for number, each in enumerate(self.all, 1) if gone(number, each.grant)]
        self.all = [each for each in self.all if each not in taken]
        return [each.grant for each in taken]

    def give(
        self, offer: GrantOffer | None, call: AskedCall, request: ApprovalRequest
    ) -> GrantOffer | None:
        """Remember an offer, or the exact call if None; return None if it was not offered."""
        offered = request.offers or ()
        otherwise: GrantOffer | None = THIS_CALL
        if offer or call.trial:
            otherwise = None
        chosen = next((each for each in offered if each == (offer or THIS_CALL)), otherwise)
        if chosen is not None and chosen.mine:
            return replace(chosen, covers=None)  # the words of the session remember it
        if chosen is None or not (chosen.rules or chosen.below or call.fingerprint):
            return None
        if offer and offer.written:
            chosen = replace(GrantOffer.of(chosen.rules), written=offer.written)
        # A lasting offer has an effect only once its rule is written.
        elif chosen.lasting:
            return None
        self.all.append(Given.of(chosen, call, request))
        if call.trial and call.trial.extent:
            self._created |= call.trial.extent.made
        return replace(chosen, covers=None)


def _met(call: AskedCall, given: Set[str]) -> GrantOffer | None:
    """Return the grant with these keys that allows a call, or None."""
    found: list[GrantRule] = []
    for need in call.needs:
        # One rule is enough for a need; a need without any leaves the list too short.
        found += [rule for rule in need if rule.key in given][:1]
    if found and len(found) == len(call.needs):
        return GrantOffer.of(found)
    return THIS_CALL if call.fingerprint in given else None


def _at_trial(offers: Iterable[GrantOffer], trial: ShownTrial) -> Iterator[GrantOffer]:
    """Yield the offers as they apply to a trial, without those that could never be used."""
    offers, extent = list(offers), trial.extent
    has_rules = any(offer.rules for offer in offers)
    for offer in offers:
        if offer.below:
            yield offer
        elif extent is None or extent.protected or (extent.repositories and not has_rules):
            # No later trial could be covered, so only a written rule helps.
            if offer.rules:
                yield replace(offer, lasting=True)
        else:
            yield replace(offer, text=f"{offer.text}{extent.limits}", trials=True)


def _is_below(changed: GrantOffer | None, granted: GrantOffer) -> bool:
    # With the slash, or /data-old would be in /data.
    return changed is not None and f"{changed.below}/".startswith(f"{granted.below}/")


def _all_met(needs: Sequence[set[str]], given: set[str]) -> bool:
    return bool(needs) and not any(given.isdisjoint(need) for need in needs)


def _keys(rules: Iterable[GrantRule]) -> set[str]:
    return {rule.key for rule in rules}
