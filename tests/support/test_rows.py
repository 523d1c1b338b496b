"""A table as one test: each failing row is reported, and rows are independent; by default only a few run."""

import os
from pathlib import Path

import pytest

from .rows import each_row


def test_every_failing_row_is_reported() -> None:
    seen = []

    @each_row(("text", "size"), [("a", 1), ("bb", 1), ("ccc", 3), ("dd", 5)])
    def check(text: str, size: int) -> None:
        seen.append(text)
        assert len(text) == size

    with pytest.raises(pytest.fail.Exception) as caught:
        check()
    assert seen == ["a", "bb", "ccc", "dd"]
    told = str(caught.value)
    assert told.startswith("2 of 4 rows fail:\n\ntext='bb', size=1\n")
    assert "\n\ntext='dd', size=5\n" in told
    assert "test_rows.py:17: AssertionError: assert 2 == 1" in told


@each_row("number", [1, 2])
@each_row("word", ["a", "b"])
def test_row_has_its_own_folder_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, number: int
) -> None:
    assert list(tmp_path.iterdir()) == []
    assert "FORGE_ROW" not in os.environ
    (tmp_path / word).write_text(str(number))
    monkeypatch.setenv("FORGE_ROW", word)


@pytest.mark.anyio
@each_row("word", ["a", "b"])
async def test_row_may_be_async(word: str) -> None:
    assert word in "ab"


def test_empty_table_is_an_error() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        each_row("word", [])


@pytest.mark.few(3)
@pytest.mark.parametrize("number", range(6))
def test_default_is_a_few_rows(number: int, request: pytest.FixtureRequest) -> None:
    alone = len(request.config.args) == 1 and "[" in request.config.args[0]
    assert alone or (request.node.get_closest_marker("long") is None) == (number in (0, 2, 5))
