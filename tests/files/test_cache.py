"""A cache in a file: an entry is found until its stamp changes, and an unreadable or unwritable file does no harm."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from forge_cli.files.cache import StampedCache

from ..rows import each_row

VALUE = [{"name": "read_file", "error": None}, 7]


def keep(file: Path, name: str = "a", stamp: str = "1", value: Any = VALUE) -> None:
    with StampedCache(file) as cache:
        cache.put(name, stamp, value)


def find(file: Path, name: str = "a", stamp: str = "1") -> Any:
    with StampedCache(file) as cache:
        return cache.find(name, stamp)


def test_it_is_found_again_as_long_as_the_stamp_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "tools.json"
    assert find(file) is None
    assert not file.parent.exists()
    keep(file)
    assert find(file) == VALUE
    assert find(file, stamp="2") is None
    assert find(file, name="b") is None
    keep(file, name="b", value=[])
    keep(file, stamp="2", value={"x": 1})
    assert (find(file, name="b"), find(file), find(file, stamp="2")) == ([], None, {"x": 1})


def test_it_is_found_at_once_by_whoever_keeps_it(tmp_path: Path) -> None:
    with StampedCache(tmp_path / "file") as cache:
        cache.put("a", "1", VALUE)
        assert cache.find("a", "1") == VALUE


def test_nothing_is_written_where_nothing_is_new(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    keep(file)
    before = file.stat().st_ino
    assert find(file) == VALUE
    assert file.stat().st_ino == before


def test_what_was_found_out_by_a_failure_is_not_kept(tmp_path: Path) -> None:
    def keep_and_fail(cache: StampedCache) -> None:
        with cache:
            cache.put("a", "1", VALUE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        keep_and_fail(StampedCache(tmp_path / "tools.json"))
    assert not list(tmp_path.iterdir())


@example(b"")
@example(b"[1, 2]")
@example(b'{"a": 1}')
@example(b'{"a": {"stamp": "2", "value": 7}}')
@example(b'{"a": {"value": 7}}')
@example(b'{"a": [')
@example(b"[" * 100_000)
@example(b"\xff\xfe")
@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_a_file_that_holds_something_else_counts_for_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tools.json"
    file.write_bytes(content)
    assert find(file) is None
    keep(file)
    assert find(file) == VALUE


@each_row("place", ["a_file/tools.json", "a_file/cache/tools.json", "folder"])
def test_a_place_that_cannot_be_written_only_costs_time(tmp_path: Path, place: str) -> None:
    (tmp_path / "a_file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    keep(tmp_path / place)
    assert find(tmp_path / place) is None
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a_file", "folder"]
