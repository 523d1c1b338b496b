"""The rule as a table: what the person has to have said before an effect that lasts."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.approval import ValueOrigin
from forge_cli.engine.provenance.named import Authority, Deed, NamedCall
from forge_cli.engine.provenance.rule import decide

PARTS = st.lists(st.sampled_from(["bob", "5", "a@b.example", "owner/x"]), max_size=4)
STEMS = st.frozensets(st.sampled_from(["send", "merg", "pay"]), min_size=1)


@dataclass
class Said:
    """Words of a session."""

    known: set[str] = field(default_factory=set)
    stems: set[str] = field(default_factory=set)
    network: set[str] = field(default_factory=set)

    def is_known(self, part: str) -> bool:
        return part in self.known

    def is_said(self, stem: str) -> bool:
        return stem in self.stems

    def is_from_network(self, part: str) -> bool:
        return part in self.network

    def origin(self, argument: str, part: str) -> ValueOrigin:
        return ValueOrigin(argument, part, "the result of fetch #1")


def call(parts: list[str], stems: frozenset[str], hard: tuple[str, ...] = ()) -> NamedCall:
    authority = tuple(Authority("to", part) for part in parts)
    return NamedCall((Deed("send", stems, hard),), authority)


@given(PARTS, STEMS, st.sets(st.sampled_from(["bob", "5", "a@b.example", "owner/x"])), STEMS)
def test_lasting_effect_is_allowed_only_if_everything_was_said(
    parts: list[str], stems: frozenset[str], known: set[str], said: frozenset[str]
) -> None:
    finding = decide("lasting", call(parts, stems), Said(known, set(said)))
    complete = bool(parts) and known.issuperset(parts) and bool(said & stems)
    assert finding.asks is not complete
    assert set(finding.values) == set(parts) - known


@given(PARTS, STEMS, st.sampled_from(["bob", "5", "a@b.example"]))
def test_one_more_known_word_never_adds_a_reason(
    parts: list[str], stems: frozenset[str], more: str
) -> None:
    before = decide("lasting", call(parts, stems), Said())
    after = decide("lasting", call(parts, stems), Said({more}))
    assert set(after.reasons) <= set(before.reasons)


def test_call_without_any_authority_word_asks() -> None:
    assert decide("lasting", call([], frozenset(["send"])), Said(stems={"send"})).asks


def test_hard_option_has_to_be_named_as_well() -> None:
    forced = call(["main"], frozenset(["push"]), ("forc",))
    assert decide("lasting", forced, Said({"main"}, {"push"})).asks
    assert not decide("lasting", forced, Said({"main"}, {"push", "forc"})).asks


def test_effects_that_can_be_undone_never_ask() -> None:
    for effect in ("none", "undoable"):
        assert not decide(effect, call(["x"], frozenset(["send"])), Said()).asks


def test_reading_asks_only_for_addresses_that_no_page_brought() -> None:
    link = call(["https://blog.example/a"], frozenset(["fetch"]))
    assert decide("reads", link, Said()).asks
    assert not decide("reads", link, Said(network={"https://blog.example/a"})).asks
    assert not decide("reads", link, Said({"blog.example"})).asks
    assert not decide("reads", call(["python"], frozenset(["search"])), Said()).asks
