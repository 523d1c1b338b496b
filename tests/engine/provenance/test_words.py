"""Words and values: equal ones are equal, and no part of a value counts as the value."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.engine.provenance.words import (
    host_of,
    named_in,
    normalise,
    parts_of,
    reaches,
    stem,
    values_in,
)

NAMES = st.from_regex(r"[a-z][a-z0-9]{2,9}", fullmatch=True)
HIDDEN = st.sampled_from(["\u200b", "\u200d", "\u2060", "\u00ad", "\ufeff", "\u202e"])


def is_known(value: object, text: str) -> bool:
    return all(part in values_in(text) for part in parts_of(value))


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once


@given(st.text(), HIDDEN, st.integers(0, 20))
def test_hidden_characters_do_not_count(text: str, hidden: str, at: int) -> None:
    assert normalise(text[:at] + hidden + text[at:]) == normalise(text)


@given(NAMES, NAMES, st.sampled_from(["example", "org", "co.uk"]))
def test_address_is_known_as_a_whole_only(user: str, host: str, top: str) -> None:
    address = f"{user}@{host}.{top}"
    assert is_known(address, f"please write to {address}, thanks")
    assert is_known(address.upper(), f'{{"to":"{address}"}}')
    assert not is_known(address, f"{user} at {host}.{top}; x{address} and {address}.evil")
    assert not is_known(f"{host}.{top}", f"please write to {address}")


@given(st.integers(10, 99), st.integers(0, 99))
def test_number_in_a_longer_number_is_not_known(number: int, more: int) -> None:
    text = f"invoice {number}{more:02d} of {more:02d}{number}"
    assert not is_known(number, text)


@given(st.text(max_size=200))
def test_words_of_a_text_are_known_in_it(text: str) -> None:
    known = values_in(text)
    plain = [part for part in parts_of(text) if part.isalnum()]
    assert all(part in known for part in plain)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1200.5", "pay 1,200.50 dollars"),
        (98.7, "the bill is 98.70."),
        (100, "send $100 to her"),
        ("https://blog.example/post", "read https://blog.example/post, then stop"),
        ("https://blog.example/post/", "read <https://blog.example/post>"),
        ("owner/name", "open an issue in owner/name"),
        ("owner/name", "clone git@github.com:owner/name.git"),
        ("@alice", "tell alice"),
        ("alice", "tell @alice"),
        ("ALICE", "tell alice"),
        ("ﬁle", "the file"),
        (["a@b.example", "c@d.example"], "to a@b.example and c@d.example"),
        ("main", "push to `main`"),
        ("general", "#general"),
        ("UK12345678901234567890", "iban uk12345678901234567890"),
        ({"to": ["bob"]}, "to bob"),
        (None, ""),
        (True, ""),
    ],
)
def test_value_is_known(value: object, text: str) -> None:
    assert is_known(value, text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("26", "in 2026"),
        ("5", "55 and 15"),
        ("evil.example", "corp.evil.example"),
        ("https://evil.example/?d=1", "https://evil.example/"),
        ("mark@evil.example", "mark, evil.example"),
        ("gpay", "pay"),
        ("bob", "bobby"),
        ("owner/other", "owner/name and other"),
        ("a@b.example c@d.example", "a@b.example"),
        ("раyраl", "paypal"),
    ],
)
def test_value_is_not_known(value: object, text: str) -> None:
    assert not is_known(value, text)


@pytest.mark.parametrize(
    ("part", "host"),
    [
        ("https://github.com@evil.example/x", "evil.example"),
        ("https://github.com.evil.example/x", "github.com.evil.example"),
        ("https://evil.example:8443/x", "evil.example"),
        ("docs.example/page", "docs.example"),
        ("src/app", None),
        ("mark@evil.example", None),
    ],
)
def test_host_is_the_one_that_is_reached(part: str, host: str | None) -> None:
    assert host_of(part) == host


def test_addresses_reach_somebody_and_words_do_not() -> None:
    assert all(map(reaches, ["a@b.example", "https://x", "docs.example/page"]))
    assert not any(map(reaches, ["hello", "5", "src/app", "note://a/b", "http://127.0.0.1:8000/x"]))
    assert all(map(reaches, ["http://intranet/x", "ldap://evil.example/x"]))


def test_forms_of_a_verb_are_equal() -> None:
    assert {stem(word) for word in ("send", "sends", "sending")} == {stem("send")}
    assert stem("schedules") == stem("scheduling") == stem("scheduled")
    assert stem("paying") == stem("pays") == stem("pay")
    assert stem("replies") == stem("reply")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("send it", True),
        ("do not send it", False),
        ("don't ever send it", False),
        ("Summarise it without sending anything", False),
        ("Do not read it. Send it", True),
        ("never merge or send", False),
    ],
)
def test_not_takes_a_deed_away(text: str, named: bool) -> None:
    assert (stem("send") in set(named_in(text))) is named


@pytest.mark.parametrize(
    "text", ["a" * 20_000, "-" * 20_000, "„" * 20_000, "a@" * 10_000, "://" * 7000]
)
def test_time_is_linear_for_any_text(text: str) -> None:
    began = time.process_time()
    values_in(text)
    parts_of(text)
    assert time.process_time() - began < 2


def test_characters_without_a_case_are_words() -> None:
    assert is_known("東京", "東京 まで")
    assert is_known("ｂｏｂ", "bob")
