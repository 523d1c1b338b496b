"""Fields of a schema: strings read as the declared type, and the form to fill in.

Covers forge_cli.schema.json.forms.
"""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from forge_cli.core.errors import SchemaError
from forge_cli.schema.json.fields import coerce
from forge_cli.schema.json.forms import FormField, derive_fields
from forge_cli.schema.json.input_schema import InputSchema
from tests.support.rows import each_row


class Size(enum.Enum):
    SMALL = "small"
    TWO = 2


class Point(BaseModel):
    x: int


class Push(BaseModel):
    branch: str = Field(description="Target branch")
    remote: Literal["origin", "upstream"] = "origin"
    force: bool = False
    depth: int | None = None
    ratio: float
    size: Size = Size.SMALL
    only: Literal["one"]
    maybe: Literal["a", "b"] | None = None
    tags: list[str] = []
    point: Point
    either: int | str = 1
    anything: Any = None


PUSH_FIELDS = [
    FormField("branch", "text", required=True, description="Target branch"),
    FormField(
        "remote", "select", default="origin", has_default=True, options=("origin", "upstream")
    ),
    FormField("force", "boolean", default=False, has_default=True),
    FormField("depth", "number", has_default=True),
    FormField("ratio", "number", required=True),
    FormField("size", "select", default="small", has_default=True, options=("small", 2)),
    FormField("only", "select", required=True, options=("one",)),
    FormField("maybe", "select", has_default=True, options=("a", "b")),
    FormField("tags", "json", default=[], has_default=True),
    FormField("point", "json", required=True),
    FormField("either", "text", default=1, has_default=True),
    FormField("anything", "json", has_default=True),
]


@pytest.mark.parametrize(
    "source",
    [
        Push,
        InputSchema.of(Push),
        InputSchema.of(Push).json_schema,
        SimpleNamespace(input_schema=Push),
        SimpleNamespace(input_schema=InputSchema.of(Push).json_schema),
    ],
)
def test_fields_of_a_form_are_derived(source: Any) -> None:
    assert derive_fields(source) == PUSH_FIELDS


def test_fields_of_a_third_party_schema_are_derived() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": ["string", "null"], "description": "Who"},
            "level": {
                "oneOf": [{"const": "low", "title": "Low"}, {"const": "high", "title": "High"}]
            },
            "mode": {"$ref": "#/$defs/mode", "default": "b"},
            "free": True,
        },
        "required": ["name", "mode"],
        "$defs": {"mode": {"enum": ["a", "b", None], "description": "How"}},
    }
    assert derive_fields(schema) == [
        FormField("name", "text", required=True, description="Who"),
        FormField("level", "select", options=("low", "high")),
        FormField(
            "mode", "select", default="b", has_default=True, description="How", options=("a", "b")
        ),
        FormField("free", "json"),
    ]


def test_form_for_an_unsupported_type_is_an_error() -> None:
    with pytest.raises(SchemaError, match="no form can be derived from the type int"):
        derive_fields(3)


NODE = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
}
DEFINITIONS = {
    "count": {"type": "integer"},
    "chain": {"$ref": "#/$defs/count"},
    "loop": {"$ref": "#/$defs/loop"},
    "circle": {"anyOf": [{"$ref": "#/$defs/circle"}, {"type": "integer"}]},
    "node": NODE,
    "a/b": {"$anchor": "here", "type": "boolean"},
}
INTEGER = {"type": "integer"}
OPTIONAL = {"anyOf": [INTEGER, {"type": "null"}]}


@each_row(
    ("declared", "given", "expected"),
    [
        (INTEGER, "10", 10),
        (INTEGER, "-3", -3),
        (INTEGER, "007", "007"),
        (INTEGER, "1.0", "1.0"),
        (INTEGER, "1_000", "1_000"),
        (INTEGER, "+1", "+1"),
        (INTEGER, " 1", " 1"),
        (INTEGER, "٣", "٣"),
        (INTEGER, "9" * 5000, "9" * 5000),
        (INTEGER, "", ""),
        (INTEGER, "true", "true"),
        (INTEGER, "null", "null"),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "number"}, "10", 10),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "number"}, "NaN", "NaN"),
        ({"type": "number"}, "Infinity", "Infinity"),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean"}, "True", "True"),
        ({"type": "boolean"}, "t", "t"),
        ({"type": "boolean"}, "1", "1"),
        ({"type": "boolean"}, "yes", "yes"),
        ({"type": "string"}, "007", "007"),
        ({"type": "string"}, "true", "true"),
        ({"type": "string"}, "", ""),
        ({"type": "string"}, "null", "null"),
        ({}, "10", "10"),
        (True, "10", "10"),
        ({"anyOf": [INTEGER, True]}, "10", "10"),
        ({"anyOf": [INTEGER, False]}, "10", 10),
        ({"type": ["integer", "string"]}, "10", "10"),
        ({"type": ["integer", "null"]}, "null", None),
        (OPTIONAL, "10", 10),
        (OPTIONAL, "null", None),
        (OPTIONAL, "none", "none"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "null", "null"),
        ({"anyOf": [{"const": "auto"}, {"type": "null"}]}, "null", "null"),
        ({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}, "true", True),
        ({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}, "1", 1),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": [1, 2]}, "3", "3"),
        ({"enum": ["a", 2]}, "2", 2),
        ({"enum": ["2", 2]}, "2", "2"),
        ({"enum": [True]}, "1", "1"),
        ({"enum": [1]}, "true", "true"),
        ({"const": 2}, "2", 2),
        ({"anyOf": [{"const": "auto"}, {"type": "integer"}]}, "2", 2),
        ({"anyOf": [{"const": "auto"}, {"type": "integer"}]}, "auto", "auto"),
        ({"type": "array"}, '["1"]', ["1"]),
        ({"type": "array", "items": INTEGER}, '["1", 2]', [1, 2]),
        ({"type": "array", "items": INTEGER}, ["1", 2], [1, 2]),
        ({"type": "array"}, "{}", "{}"),
        ({"type": "array"}, "[" * 100_000, "[" * 100_000),
        (
            {"type": "array", "prefixItems": [INTEGER], "items": {"type": "string"}},
            ["1", "2"],
            [1, "2"],
        ),
        ({"type": "object"}, '{"a": "1"}', {"a": "1"}),
        ({"type": "object", "additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}),
        (
            {"type": "object", "properties": {"a": INTEGER}},
            ' {"a": "1", "b": "1"} ',
            {"a": 1, "b": "1"},
        ),
        (
            {"type": "object", "patternProperties": {"^s": {}}, "additionalProperties": INTEGER},
            {"s": "1"},
            {"s": "1"},
        ),
        (
            {"anyOf": [{"type": "object", "properties": {"a": INTEGER}}, {"type": "null"}]},
            {"a": "1"},
            {"a": 1},
        ),
        (
            {"anyOf": [{"type": "object", "properties": {"a": INTEGER}}, {"type": "object"}]},
            {"a": "1"},
            {"a": "1"},
        ),
        ({"$ref": "#/$defs/count"}, "1", 1),
        ({"$ref": "#/$defs/chain"}, "1", 1),
        ({"$ref": "#/$defs/loop"}, "1", "1"),
        ({"$ref": "#/$defs/circle"}, "1", 1),
        ({"$ref": "#/$defs/a~1b"}, "true", True),
        ({"$ref": "#here"}, "true", True),
        ({"$ref": "#/$defs/none"}, "1", "1"),
        ({"$ref": "https://example.org/x.json"}, "1", "1"),
        ({"$ref": "#/$defs/node"}, {"n": "1", "next": {"n": "2"}}, {"n": 1, "next": {"n": 2}}),
        ({"allOf": [{"$ref": "#/$defs/count"}], "description": "d"}, "1", 1),
        ({"type": "string"}, 7, 7),
        (INTEGER, 1.0, 1.0),
        (INTEGER, True, True),
        ({"type": "boolean"}, 1, 1),
    ],
)
def test_strings_are_coerced_to_declared_types(declared: Any, given: Any, expected: Any) -> None:
    schema = {"type": "object", "properties": {"v": declared}, "$defs": DEFINITIONS}
    coerced = coerce({"v": given}, schema)["v"]
    assert (coerced, type(coerced)) == (expected, type(expected))
