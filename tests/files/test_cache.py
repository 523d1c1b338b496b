"""A cache in a file: an entry is found until its stamp changes, and an unreadable or unwritable file does no harm."""

import json
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from forge_cli.files.cache import StampedCache

VALUE = [{"name": "read_file", "error": None}, 7]


def keep(file: Path, name: str = "a", stamp: str = "1", value: Any = VALUE) -> None:
    with StampedCache(file) as cache:
        cache.put(name, stamp, value)


def find(file: Path, name: str = "a", stamp: str = "1") -> Any:
    with StampedCache(file) as cache:
        return cache.find(name, stamp)


def test_cache_entry_is_valid_while_its_stamp_is_the_same(tmp_path: Path) -> None:
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


@example(b"")
@example(b"[1, 2]")
@example(b'{"a": 1}')
@example(b'{"a": {"stamp": "2", "value": 7}}')
@example(b'{"a": {"value": 7}}')
@example(b'{"a": [')
@example(b"[" * 100_000)
@example(b"\xff\xfe")
@given(
    st.binary()
    | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
        lambda x: json.dumps(x).encode()
    )
)
def test_cache_ignores_a_file_of_another_form(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tools.json"
    file.write_bytes(content)
    assert find(file) is None
    keep(file)
    assert find(file) == VALUE
