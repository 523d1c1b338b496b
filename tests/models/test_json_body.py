import json
from enum import Enum
from typing import Any

import pytest

from forge_cli.models.json_body import json_bytes, json_within


class Colour(Enum):
    RED = "red"


def strict(name: str) -> Any:
    raise ValueError(name)


def test_plain_data_is_encoded_unchanged() -> None:
    value = {"a": [1, 0.5, None, True], "ü": "ü😀\n", "big": 10**30}
    assert (
        json_bytes(value)
        == '{"a":[1,0.5,null,true],"ü":"ü😀\\n","big":1000000000000000000000000000000}'.encode()
    )
    assert json_within({"a": [1, "ü"]}) == '{"a": [1, "ü"]}'


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ({"x": float("nan"), "y": float("inf")}, {"x": "nan", "y": "inf"}),
        ({"x": Colour.RED, "y": (1, 2)}, {"x": "red", "y": [1, 2]}),
        ("a\udc80b\ud83dc", "a\\udc80b\\ud83dc"),
        ({"\ud800": "ü\udfff"}, {"\\ud800": "ü\\udfff"}),
        ([float("nan"), "\udc80"], ["nan", "\\udc80"]),
    ],
)
def test_values_that_strict_parsers_refuse_become_text(value: object, sent: object) -> None:
    assert json.loads(json_bytes(value), parse_constant=strict) == sent
    assert json.loads(json_within(value).encode(), parse_constant=strict) == sent
