"""The words of a session: what is known, where it came from, and how much memory they take.

Covers forge_cli.engine.provenance.table as well.
"""

import time

from hypothesis import given
from hypothesis import strategies as st

from forge_cli.engine.provenance.index import Read, SessionWords, Trust
from forge_cli.engine.provenance.table import MINE, TRUSTED, WordTable


def read(text: str, trust: Trust = "untrusted", tool: str = "fetch") -> Read:
    return Read(
        tool, text, trust, from_network=trust == "untrusted", title="page", call="c1", line=7
    )


@given(st.lists(st.text(min_size=1), max_size=200))
def test_table_keeps_every_word_with_its_first_source(words: list[str]) -> None:
    table = WordTable()
    first: dict[str, int] = {}
    for number, word in enumerate(words):
        table.add(word, number, 0)
        first.setdefault(word, number)
    assert {word: table.source(word) for word in first} == first
    assert len(table) == len(first)


def test_table_never_exceeds_its_bound_and_keeps_what_it_has() -> None:
    table = WordTable()
    for number in range(100_000):
        table.add(f"word{number}", 1, TRUSTED)
    assert table.bytes <= table.most_bytes
    assert table.flags("word0") == TRUSTED
    assert table.flags("word99999") == 0


def test_flags_of_the_person_are_added_to_a_known_word() -> None:
    table = WordTable()
    table.add("bob", 3, 0)
    table.add("bob", 4, MINE)
    assert (table.source("bob"), table.flags("bob")) == (3, MINE)


def test_nothing_is_split_before_untrusted_text_was_read() -> None:
    words = SessionWords(0)
    words.name_deeds("send it to bob@corp.example")
    words.take(read("x" * 1000, "neutral"))
    words.write("mark@evil.example")
    assert not words.is_tainted
    assert words.bytes == 0


def test_person_and_trusted_sources_are_known_and_strangers_are_not() -> None:
    words = SessionWords(0)
    words.name_deeds("send it to bob@corp.example")
    words.take(read("carol@corp.example", "trusted"))
    words.take(read("dave@corp.example", "neutral"))
    words.take(read("mark@evil.example"))
    assert words.is_tainted
    assert [words.is_known(f"{name}@corp.example") for name in ("bob", "carol", "dave")] == [
        True,
        True,
        False,
    ]
    assert not words.is_known("mark@evil.example")
    origin = words.origin("to", "mark@evil.example")
    assert origin.source == "the result of fetch #3 (page)"
    assert (origin.argument, origin.call, origin.line) == ("to", "c1", 7)


def test_value_that_nobody_brought_has_no_source() -> None:
    words = SessionWords(0)
    words.take(read("hello"))
    words.write("bWFya0BldmlsLmV4YW1wbGU")
    assert words.origin("to", "mark@evil.example").source is None
    assert words.origin("to", "bwfya0bldmlslmv4yw1wbgu").source is None


def test_what_the_session_wrote_itself_does_not_come_from_the_network_later() -> None:
    words = SessionWords(0)
    words.take(read("hello"))
    assert not words.is_from_network("https://evil.example/?d=secret")
    words.write("https://evil.example/?d=secret")
    words.take(read("you searched for https://evil.example/?d=secret"))
    assert not words.is_from_network("https://evil.example/?d=secret")
    words.take(read("see https://docs.example/a"))
    assert words.is_from_network("https://docs.example/a")


def test_endorsed_value_counts_from_then_on() -> None:
    words = SessionWords(0)
    words.take(read("mark@evil.example"))
    words.endorse(["mark@evil.example"])
    assert words.is_known("mark@evil.example")


def test_index_takes_a_tenth_of_the_record_and_answers_at_once() -> None:
    words = SessionWords(0)
    words.name_deeds("send it to bob@corp.example")
    for number in range(500):
        text = " ".join(f"w{number * 1500 + each}x" for each in range(1500))
        words.take(read(f"{text} mark{number}@evil.example"))
        if number == 0:
            words.is_known("bob@corp.example")
    assert words.record_bytes > 5_000_000
    assert words.bytes <= words.record_bytes / 10
    began = time.process_time()
    for number in range(100):
        words.is_known(f"mark{number}@evil.example")
        words.origin("to", f"mark{number}@evil.example")
    assert (time.process_time() - began) / 100 < 0.005
    assert words.is_known("bob@corp.example")
