"""JSON text of plain data: what the standard library writes."""

import json
import json.encoder
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.json_text import json_encoder

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(categories=["L", "N", "P", "C"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)
WAYS: list[dict[str, Any]] = [
    {"ensure_ascii": False},
    {"ensure_ascii": False, "separators": (",", ":"), "sort_keys": True},
    {"ensure_ascii": True, "sort_keys": True},
]


@given(DATA)
def test_it_is_what_the_standard_library_writes(data: Any) -> None:
    for way in WAYS:
        assert json_encoder(**way)(data) == json.dumps(data, **way)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_without_an_encoder_in_c_it_is_the_same(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"b": [1, 2.5, None, "é \n\x01"], "a": {"y": True, "x": float("inf")}}
    written = json_encoder(**way)(data)
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    assert json_encoder(**way)(data) == written == json.dumps(data, **way)


def test_after_something_that_json_cannot_carry_the_rest_is_written_as_ever() -> None:
    encode, data = json_encoder(), [object()]
    with pytest.raises(TypeError, match="not JSON serializable"):
        encode(data)
    data[0] = "plain"  # type: ignore[call-overload]
    assert encode(data) == '["plain"]'


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_numbers_that_json_does_not_have_can_be_refused(number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_encoder(allow_nan=False)([number])
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_encoder(allow_nan=False)([number])
