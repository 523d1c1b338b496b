"""One result of every kind, and strategies for all of them.

A new kind of result gets a row in ``results_of`` and one in ``result_strategies``. ``tests/core/test_kinds.py`` fails
until it has them, and from then on what writes, draws and bounds results is tried with it.
"""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from forge_cli.core.media import DisplayHints
from forge_cli.core.results import (
    Blob,
    Custom,
    Diff,
    FileContent,
    FileList,
    Image,
    Json,
    ResultValue,
    Table,
    Text,
)

Strategy = st.SearchStrategy[Any]
ANY_MIME: Strategy = st.sampled_from(
    [None, "image/png", "text/csv", "text/x-diff", "text/markdown"]
)
OWN_KIND: Strategy = st.just("a.b")


def results_of(text: str, hints: DisplayHints | None = None) -> list[ResultValue]:
    """One result of each kind, in which this text is wherever a text can be."""
    return [
        Text(text, hints),
        Diff(text, None, text, is_new=True, bytes_written=len(text), display=hints),
        FileContent(text, text, len(text), hints),
        FileList(text, (text,), 1, hints),
        Json({text: [text]}, hints),
        Table((text,), ((text,), (None,)), summary=text, display=hints),
        Custom("a.b", {text: [text]}, text, text, hints),
    ]


def result_strategies(
    words: Strategy,
    data: Strategy,
    hints: Strategy,
    *,
    mimes: Strategy = ANY_MIME,
    kinds: Strategy = OWN_KIND,
) -> dict[type[Any], Strategy]:
    """A strategy for each kind of result that consists of texts, with given texts."""
    numbers = st.integers(0, 99)
    maybe = st.none() | words
    names = st.lists(words, max_size=3).map(tuple)
    return {
        Text: st.builds(Text, words, hints),
        Diff: st.builds(_diff, words, maybe, words, hints),
        FileContent: st.builds(FileContent, words, words, numbers, hints),
        FileList: st.builds(FileList, words, names, numbers, hints),
        Json: st.builds(Json, data, hints),
        Table: st.builds(_table, words, st.lists(st.none() | words, max_size=3), hints),
        Custom: st.builds(Custom, kinds, data, maybe, mimes, hints, maybe),
    }


def _diff(path: str, original: str | None, modified: str, hints: DisplayHints | None) -> Diff:
    return replace(Diff.of(path, original, modified), display=hints)


def _table(name: str, cells: list[str | None], hints: DisplayHints | None) -> Table:
    return Table((name,), tuple((cell,) for cell in cells), summary=name, display=hints)


WITH_BYTES = {Image, Blob}
"""Kinds that hold bytes: no text is in them but a name, and tests of their own look at them."""
