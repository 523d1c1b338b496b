"""From frozen values to JSON: camelCase keys, absent things left out, and nothing that JSON cannot carry."""

import json
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from forge_cli.core.errors import Mark
from forge_cli.core.results import Text
from forge_cli.core.wire import MAX_DEPTH, clean_text, error_text, jsonable, wire


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int = 1


@dataclass(frozen=True)
class Inner:
    a_b: int = 1


@dataclass(frozen=True)
class Sample:
    plain_name: str
    always: str | None
    maybe_absent: str | None = None
    some_list: tuple[Any, ...] = ()
    where_it_is: Mark | None = None
    data: Any = field(default=None)


def test_keys_are_camel_case_and_only_what_may_be_absent_is_left_out() -> None:
    assert wire(Sample("x", None)) == {"plainName": "x", "always": None, "someList": []}
    assert wire(Sample("x", "y", "z", (Text("t"), Mark("f", 2), 3), Mark("f", 2, 3), {"snake_key": 1})) == {
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
        (object(), "<object object>"),
        (frozenset({"b", "a", 1}), ["a", "b", 1]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_odd_values_become_plain_json(value: Any, plain: Any) -> None:
    assert jsonable(value) == plain


def test_a_value_seen_twice_is_shown_twice_unless_it_holds_itself() -> None:
    shared = [1]
    assert jsonable([shared, shared]) == [[1], [1]]
    shared.append(shared)  # type: ignore[arg-type]
    assert jsonable(shared) == [1, "[the same value again]"]


def test_what_is_nested_too_deep_is_cut() -> None:
    nest: list[Any] = []
    for _ in range(10_000):
        nest = [nest]
    text = json.dumps(jsonable(nest))
    assert text == "[" * MAX_DEPTH + '"[nested too deep]"' + "]" * MAX_DEPTH


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(ANYTHING)
def test_whatever_it_is_json_can_carry_it(value: Any) -> None:
    text = json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False).encode()
    assert jsonable(json.loads(text)) == json.loads(text)


def test_lone_surrogates_are_shown_escaped() -> None:
    assert clean_text("é😀") == "é😀"
    assert clean_text("a\udc80") == "a\\udc80"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad"), "ValueError: bad"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (Mute(), "Mute: [a Mute that cannot be shown]"),
        (ValueError("\ud800"), "ValueError: \\ud800"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_says_its_type_and_its_words(error: BaseException, text: str) -> None:
    assert error_text(error) == text
