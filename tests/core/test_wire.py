"""From frozen values to JSON: camelCase keys, absent things left out, and nothing that JSON cannot carry.

Covers forge_cli.core.wire, forge_cli.engine.gate.debugging.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, field
from pydantic import BaseModel

from forge_cli.core.errors import Mark
from forge_cli.core.results import Text
from forge_cli.core.wire import Unreadable, jsonable, read, wire


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int = 1


class Inner(Struct, frozen=True):
    a_b: int = 1


class Sample(Struct, frozen=True):
    plain_name: str
    always: str | None
    maybe_absent: str | None = None
    some_list: tuple[Any, ...] = ()
    where_it_is: Mark | None = None
    data: Any = None


def test_keys_are_camel_case_and_optional_ones_are_omitted() -> None:
    assert wire(Sample("x", None)) == {"plainName": "x", "always": None, "someList": []}
    assert wire(
        Sample("x", "y", "z", (Text("t"), Mark("f", 2), 3), Mark("f", 2, 3), {"snake_key": 1})
    ) == {
        "plainName": "x",
        "always": "y",
        "maybeAbsent": "z",
        "someList": [{"kind": "text", "content": "t"}, "f:2:1", 3],
        "whereItIs": "f:2:3",
        "data": {"snake_key": 1},
    }


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        (Path("/a/b"), "/a/b"),
        (Point(), {"x": 1}),
        (Inner(), {"a_b": 1}),
        ([Inner(), (1,), {2}], [{"a_b": 1}, [1], [2]]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (memoryview(b"view"), "view"),
        (range(3), [0, 1, 2]),
        ({"a": 1}.values(), [1]),
        (object(), "<object object>"),
        (frozenset({"b", "a", 1}), ["a", "b", 1]),
    ],
)
def test_odd_values_become_plain_json(value: Any, plain: Any) -> None:
    assert jsonable(value) == plain


def test_value_that_contains_itself_is_refused() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    with pytest.raises(ValueError, match="contains itself"):
        jsonable(ring)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(ANYTHING)
def test_jsonable_value_is_always_json(value: Any) -> None:
    text = json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False).encode()
    assert jsonable(json.loads(text)) == json.loads(text)


class Part(Struct, frozen=True):
    some_place: Mark | None = None
    names: tuple[str, ...] = ()

    def wire(self) -> dict[str, Any]:
        return wire(self)


class Whole(Struct, frozen=True):
    size: int
    share: float
    word: Literal["a", "b"]
    sure: bool
    inner: Part
    must: str | None
    more: Mapping[str, str] = field(default_factory=dict)
    nothing: str | None = None


WHOLE = Whole(3, 0.5, "a", True, Part(Mark("a:b", 2, 3), ("x", "y")), None, {"k": "v"})


def test_value_is_read_as_written() -> None:
    data = {
        "size": 3,
        "share": 0.5,
        "word": "a",
        "sure": True,
        "inner": {"somePlace": "a:b:2:3", "names": ["x", "y"]},
        "more": {"k": "v"},
        "must": None,
    }
    assert wire(WHOLE) == data
    assert read(Whole, {**data, "new": 1}) == WHOLE
    sparse = {key: data[key] for key in ("size", "share", "word", "sure")}
    assert read(Whole, {**sparse, "inner": {}}) == Whole(3, 0.5, "a", True, Part(), must=None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"size": True}, "size: not a whole number"),
        ({"share": "half"}, "share: not a number"),
        ({"word": 1}, "word: not a text"),
        ({"sure": 1}, "sure: not true or false"),
        ({"inner": []}, "inner: not an object"),
        ({"inner": {"somePlace": "nowhere"}}, "inner.somePlace: not a place in a file"),
        ({"inner": {"names": ["a", None]}}, "inner.names: not a text"),
        ({"more": {"k": 1}}, "more: not a text"),
        ({"size": ...}, "size: missing"),
    ],
)
def test_unreadable_value_is_named_by_its_place(change: dict[str, Any], problem: str) -> None:
    data = {**wire(WHOLE), **change}
    with pytest.raises(Unreadable, match=f"^{problem}$"):
        read(Whole, {key: value for key, value in data.items() if value is not ...})
