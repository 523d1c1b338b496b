"""The section ``provenance:`` of workers, settings and the organisation's policy, and its merge."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace
from pydantic import AfterValidator, Field

from forge_cli.core.errors import Mark
from forge_cli.core.text import did_you_mean
from forge_cli.schema.config import Config

Undoable = Literal["allow", "ask"]
Other = Literal["off", "ask", "blocked"]
Mine = Literal["typed", "attached", "approved"]
MINE: tuple[Mine, ...] = ("typed", "attached", "approved")
_STRICTNESS = ("off", "allow", "ask", "blocked")

ALONE = ("web", "mcp", "files", "commands")
"""Sources without a name: two toolsets, files outside the zones, commands with a network."""
NAMED = ("mcp", "zone", "file", "command", "tool")
"""Kinds of sources that a name follows, as in ``mcp:contacts``."""
_SOURCE = re.compile(rf"(?:{'|'.join(ALONE)})|(?:{'|'.join(NAMED)}):.*\S.*")


def _check_source(source: str) -> str:
    if _SOURCE.fullmatch(source):
        return source
    known = [*ALONE, *(f"{kind}:" for kind in NAMED)]
    kind, colon, name = source.partition(":")
    if kind in NAMED and colon and not name.strip():
        raise ValueError(f"'{source}' needs a name after the colon")
    hint = did_you_mean(f"{kind}{colon}", known, f"known: {', '.join(known)}NAME")
    raise ValueError(f"'{source}' is not a source; {hint}")


SourceName = Annotated[str, AfterValidator(_check_source)]
"""A source as people write it, such as ``web`` or ``mcp:contacts``."""


class AfterUntrusted(Config):
    """What calls need once the session has read untrusted text."""

    undoable: Undoable | None = None
    """Calls whose effect can be undone: as the policy says (allow), or ask."""
    other: Other | None = None
    """Calls whose effect cannot be undone, unless the person named it."""


class ProvenanceSection(Config):
    """The rule about effects that cannot be undone, after untrusted text was read."""

    untrusted: list[SourceName] | None = None
    """Sources of untrusted text."""
    trusted: list[SourceName] | None = None
    """Sources whose words count, as they were when the session began."""
    after_untrusted: AfterUntrusted = Field(default_factory=AfterUntrusted.empty)
    """What calls need once the session has read untrusted text."""
    unless: Literal["from_person"] | None = None
    """from_person: a call that the person named does not ask, if only a default would ask."""
    counts_as_mine: list[Mine] | None = None
    """Whose words are the person's."""
    authority: dict[str, Annotated[list[str], Field(min_length=1)]] = Field(default_factory=dict)
    """By tool: the arguments that decide whom or what a call reaches."""


class Provenance(Struct, frozen=True, kw_only=True):
    """The rule that applies to one worker, merged of all files."""

    untrusted: tuple[str, ...] = ALONE
    trusted: tuple[str, ...] = ()
    undoable: Undoable = "allow"
    other: Other = "ask"
    from_person: bool = False
    """True if a call that the person named need not ask."""
    counts_as_mine: tuple[Mine, ...] = MINE
    authority: Mapping[str, tuple[str, ...]] = {}
    where: Mark | None = None
    """The place of ``after_untrusted.other`` that decides; None for the default."""

    @property
    def is_off(self) -> bool:
        return self.other == "off" and self.undoable == "allow"


class Merged(Struct, frozen=True):
    """The merged rule, and a sentence for each part that was ignored because it is looser."""

    rule: Provenance
    ignored: tuple[str, ...] = ()


def merge_provenance(
    *,
    person: ProvenanceSection | None = None,
    worker: ProvenanceSection | None = None,
    tightening: Mapping[str, ProvenanceSection] | None = None,
    parent: Provenance | None = None,
) -> Merged:
    """Merge the sections of all files: the strictest counts.

    The person's section is the highest. ``tightening`` are sections by title that can only
    tighten, as can a child of ``parent``. What would loosen a higher section is ignored.
    """
    merging = _Merging()
    rule = merging.chosen(person, worker)
    for name, section in (tightening or {}).items():
        rule = merging.tightened(rule, section, name)
    if parent is not None:
        rule = _capped(rule, parent)
    return Merged(rule, tuple(merging.ignored))


class _Merging:
    """A merge that collects sentences about ignored parts."""

    def __init__(self) -> None:
        self.ignored: list[str] = []

    def _ignore(self, section: ProvenanceSection, loc: Sequence[str], why: str) -> None:
        where = section.where(*loc)
        place = f"{where}: " if where else ""
        self.ignored.append(f"{place}provenance.{'.'.join(loc)} ignored: {why}")

    def chosen(
        self, person: ProvenanceSection | None, worker: ProvenanceSection | None
    ) -> Provenance:
        """Return the rule of the person and the worker that the person chose."""
        if person is None and worker is None:
            return Provenance()
        if person is None or worker is None:
            return _rule_of(person or worker or ProvenanceSection.empty())
        high = person
        low = worker
        rule = _rule_of(high)
        stated = low.after_untrusted
        if high.after_untrusted.other is None and stated.other is not None:
            rule = replace(rule, other=stated.other, where=_place(low))
        elif _is_looser(stated.other, rule.other):
            self._ignore(low, ("after_untrusted", "other"), f"your own config says {rule.other}")
        elif stated.other is not None and stated.other != rule.other:
            rule = replace(rule, other=stated.other, where=_place(low))
        if high.after_untrusted.undoable is None and stated.undoable is not None:
            rule = replace(rule, undoable=stated.undoable)
        elif _is_looser(stated.undoable, rule.undoable):
            why = f"your own config says {rule.undoable}"
            self._ignore(low, ("after_untrusted", "undoable"), why)
        elif stated.undoable is not None:
            rule = replace(rule, undoable=stated.undoable)
        if high.untrusted is None:
            if low.untrusted is not None:
                rule = replace(rule, untrusted=tuple(low.untrusted))
        else:
            rule = replace(rule, untrusted=_union(rule.untrusted, low.untrusted))
        if high.trusted is None:
            rule = replace(rule, trusted=tuple(low.trusted or ()))
        elif more := [each for each in low.trusted or () if each not in high.trusted]:
            why = f"your own config does not trust {', '.join(more)}"
            self._ignore(low, ("trusted",), why)
        if low.unless is not None and not rule.from_person:
            self._ignore(low, ("unless",), "your own config has provenance without it")
        if low.counts_as_mine is not None:
            kept = tuple(each for each in rule.counts_as_mine if each in low.counts_as_mine)
            rule = replace(rule, counts_as_mine=kept)
        authority = dict(rule.authority)
        for tool, args in low.authority.items():
            authority[tool] = _union(authority.get(tool, ()), args)
        return replace(rule, authority=authority)

    def tightened(self, rule: Provenance, section: ProvenanceSection, name: str) -> Provenance:
        """Return the rule with the stricter parts of a section."""
        only = f"{name} can only tighten"
        stated = section.after_untrusted
        if _is_looser(stated.other, rule.other):
            self._ignore(section, ("after_untrusted", "other"), only)
        elif stated.other is not None and stated.other != rule.other:
            rule = replace(rule, other=stated.other, where=_place(section))
        if _is_looser(stated.undoable, rule.undoable):
            self._ignore(section, ("after_untrusted", "undoable"), only)
        elif stated.undoable is not None:
            rule = replace(rule, undoable=stated.undoable)
        rule = replace(rule, untrusted=_union(rule.untrusted, section.untrusted))
        if section.trusted:
            self._ignore(section, ("trusted",), only)
        if section.unless is not None:
            self._ignore(section, ("unless",), only)
        if section.counts_as_mine is not None:
            kept = tuple(each for each in rule.counts_as_mine if each in section.counts_as_mine)
            rule = replace(rule, counts_as_mine=kept)
        authority = dict(rule.authority)
        for tool, args in section.authority.items():
            # By default every argument counts, so that a list would leave some out.
            if tool in authority:
                authority[tool] = _union(authority[tool], args)
            else:
                self._ignore(section, ("authority", tool), only)
        return replace(rule, authority=authority)


def _rule_of(section: ProvenanceSection) -> Provenance:
    stated = section.after_untrusted
    untrusted = ALONE if section.untrusted is None else tuple(section.untrusted)
    mine = MINE if section.counts_as_mine is None else tuple(section.counts_as_mine)
    return Provenance(
        untrusted=untrusted,
        trusted=tuple(section.trusted or ()),
        undoable=stated.undoable or "allow",
        other=stated.other or "ask",
        from_person=section.unless is not None,
        counts_as_mine=mine,
        authority={tool: tuple(args) for tool, args in section.authority.items()},
        where=_place(section),
    )


def _capped(rule: Provenance, parent: Provenance) -> Provenance:
    """Return the rule of a child worker, which is at least as strict as that of its parent."""
    other, where = rule.other, rule.where
    if _is_looser(other, parent.other):
        other, where = parent.other, parent.where
    authority = {
        tool: _union(args, parent.authority.get(tool, ()))
        for tool, args in rule.authority.items()
        if tool in parent.authority or not parent.authority
    }
    return Provenance(
        untrusted=_union(rule.untrusted, parent.untrusted),
        trusted=tuple(each for each in rule.trusted if each in parent.trusted),
        undoable="ask" if "ask" in (rule.undoable, parent.undoable) else "allow",
        other=other,
        from_person=rule.from_person and parent.from_person,
        counts_as_mine=tuple(each for each in rule.counts_as_mine if each in parent.counts_as_mine),
        authority=authority,
        where=where,
    )


def _place(section: ProvenanceSection) -> Mark | None:
    return section.after_untrusted.where("other") or section.where()


def _is_looser(stated: str | None, known: str) -> bool:
    return stated is not None and _STRICTNESS.index(stated) < _STRICTNESS.index(known)


def _union(first: Iterable[str], second: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *(second or ()))))
