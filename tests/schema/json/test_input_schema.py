"""Input schemas: their form for a model, and validation of its args.

Covers forge_cli.schema.json.bounded, forge_cli.schema.json.validation, forge_cli.schema.json.problems,
forge_cli.schema.json.signature, forge_cli.schema.json.model_problems.
"""

from __future__ import annotations

import enum
import json
import math
import re
import socket
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from forge_cli.core.errors import InvalidInput, SchemaError, ToolError
from forge_cli.schema.json.bounded import linear_matcher
from forge_cli.schema.json.input_schema import InputSchema, lint
from forge_cli.schema.json.signature import SignatureModel


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Point(BaseModel):
    x: int
    y: int = 0


class Everything(BaseModel):
    """All kinds of fields."""

    n: int = Field(ge=0)
    text: str = "x"
    flag: bool = False
    ratio: float = 0.5
    colour: Colour = Colour.RED
    day: date | None = None
    path: Path = Path(".")
    point: Point | None = None
    points: list[Point] = []
    size: Literal["s", "m"] = "s"
    either: int | list[int] = 1


EVERYTHING = InputSchema.of(Everything)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0},
        "text": {"type": "string", "default": "x"},
        "flag": {"type": "boolean"},
        "colour": {"enum": ["red", 2]},
        "point": {"anyOf": [{"$ref": "#/$defs/point"}, {"type": "null"}]},
        "points": {"type": "array", "items": {"$ref": "#/$defs/point"}},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
    },
    "required": ["n"],
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
FOREIGN = InputSchema.of(SCHEMA)
BOTH = pytest.mark.parametrize("schema", [EVERYTHING, FOREIGN], ids=["model", "schema"])


def problem(schema: InputSchema, args: Any) -> str:
    with pytest.raises(InvalidInput) as caught:
        schema.validate(args)
    return str(caught.value)


def test_model_becomes_plain_json_schema() -> None:
    class Small(BaseModel):
        """What it is for."""

        name: str = Field(description="Who", title="Name")
        title: str = "t"
        point: Point = Point(x=1)

    assert InputSchema.of(Small).json_schema == {
        "type": "object",
        "description": "What it is for.",
        "properties": {
            "name": {"type": "string", "description": "Who"},
            "title": {"type": "string", "default": "t"},
            "point": {"$ref": "#/$defs/Point", "default": {"x": 1, "y": 0}},
        },
        "required": ["name"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            }
        },
    }


class Node(BaseModel):
    name: str
    children: list[Node] = []


def test_recursive_model_is_an_object_at_the_top() -> None:
    schema = InputSchema.of(Node)
    assert schema.json_schema["type"] == "object"
    assert list(schema.json_schema["properties"]) == ["name", "children"]
    given = {"name": "a", "children": [{"name": "b", "children": []}]}
    assert schema.validate(given) == given
    assert (
        problem(schema, {"name": "a", "children": [{"nam": "b"}]})
        == "missing field 'children[0].name' (a string)"
    )


def test_defaults_are_filled_in_the_order_of_the_schema() -> None:
    args = EVERYTHING.validate({"size": "m", "n": 3})
    assert list(args) == list(Everything.model_fields)
    assert args == {
        "n": 3,
        "text": "x",
        "flag": False,
        "ratio": 0.5,
        "colour": "red",
        "day": None,
        "path": ".",
        "point": None,
        "points": [],
        "size": "m",
        "either": 1,
    }
    assert FOREIGN.validate({"flag": True, "n": 3}) == {"n": 3, "text": "x", "flag": True}
    assert list(FOREIGN.validate({"flag": True, "n": 3})) == ["n", "text", "flag"]


def test_validated_args_are_new_and_plain() -> None:
    given = MappingProxyType({"n": 1, "points": [{"x": "1"}]})
    for schema in (EVERYTHING, FOREIGN):
        args = schema.validate(given)
        assert args["points"][0]["x"] == 1
        assert type(args) is dict
        assert type(args["points"]) is list
        assert schema.validate(args) == args
    assert given["points"] == [{"x": "1"}]


def test_filled_defaults_are_not_shared_between_calls() -> None:
    schema = InputSchema.of(
        {"type": "object", "properties": {"tags": {"type": "array", "default": []}}}
    )
    schema.validate({})["tags"].append("x")
    assert schema.validate({}) == {"tags": []}


def test_default_that_does_not_match_its_schema_is_not_filled() -> None:
    schema = InputSchema.of(
        {"type": "object", "properties": {"a": {"type": "string", "default": None}}}
    )
    assert schema.validate({}) == {}

    class Sloppy(BaseModel):
        a: str = None  # type: ignore[assignment]
        b: int = 2

    assert InputSchema.of(Sloppy).validate({}) == {"b": 2}


@BOTH
def test_error_names_each_invalid_field(schema: InputSchema) -> None:
    assert problem(schema, {"n": "x", "tex": "y"}) == (
        "n: must be an integer >= 0, got 'x'; unknown field 'tex' (did you mean 'text'?)"
    )
    assert issubclass(InvalidInput, ToolError)


@BOTH
@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({}, "missing field 'n' (an integer >= 0)"),
        ({"n": -1}, "n: must be an integer >= 0, got -1"),
        ({"n": True}, "n: must be an integer >= 0, got true"),
        ({"n": None}, "n: must be an integer >= 0, got null"),
        ({"n": 1.5}, "n: must be an integer >= 0, got 1.5"),
        ({"n": "007"}, "n: must be an integer >= 0, got '007'"),
        ({"n": ""}, "n: must be an integer >= 0, got ''"),
        ({"n": [1]}, "n: must be an integer >= 0, got a list"),
        ({"n": 1, "text": 7}, "text: must be a string, got 7"),
        ({"n": 1, "flag": "t"}, "flag: must be true or false, got 't'"),
        ({"n": 1, "flag": 1}, "flag: must be true or false, got 1"),
        ({"n": 1, "colour": "blue"}, "colour: must be one of 'red', 2, got 'blue'"),
        ({"n": 1, "point": {"x": "a"}}, "point.x: must be an integer, got 'a'"),
        ({"n": 1, "point": {"y": 1}}, "missing field 'point.x' (an integer)"),
        ({"n": 1, "point": 3}, "point: must be an object or null, got 3"),
        ({"n": 1, "points": [{"x": 1}, {"x": "b"}]}, "points[1].x: must be an integer, got 'b'"),
        (
            {"n": 1, "text": 7, "flag": "\x1b[2J"},
            "text: must be a string, got 7; flag: must be true or false, got '\\x1b[2J'",
        ),
        ({"n": "9" * 99}, None),
        ({"n": "9" * 5000}, f"n: must be an integer >= 0, got '{'9' * 56}..."),
        ({"n": math.nan}, "it is not plain JSON: Out of range float values are not JSON compliant"),
        ({"n": 1, "text": "\ud800"}, "it contains a lone surrogate, which is not text"),
        ({"n": 1, "\ud800": 2}, "it contains a lone surrogate, which is not text"),
        (
            {"n": 1, "text": b"x"},
            "it is not plain JSON: Object of type bytes is not JSON serializable",
        ),
        ({"n": 1, "zzz\x1b": 2}, None),
        ([], "the input must be an object, got a list"),
        (None, "the input must be an object, got null"),
        ("{}", "the input must be an object, got '{}'"),
    ],
)
def test_invalid_args_are_refused(schema: InputSchema, args: Any, sentence: str | None) -> None:
    if sentence is not None:
        assert (
            problem(schema, args).removesuffix(": nan") == sentence
        )  # said by Python 3.13 and newer
    elif "n" in args and len(args) == 1:
        assert schema.validate(args)["n"] == int(args["n"])
    else:
        assert problem(schema, args).startswith("unknown field 'zzz\\x1b' (known: n, text, flag, ")


def test_error_lists_at_most_five_problems() -> None:
    with pytest.raises(InvalidInput) as caught:
        FOREIGN.validate({f"unknown{index}": 1 for index in range(8)} | {"n": 1})
    assert str(caught.value).count("unknown field") == 5
    assert len(caught.value.problems) == 8


def test_constraints_are_described_in_words() -> None:
    wanted = "a string of at most 3 characters and matching '^[a-z]+$'"
    assert problem(FOREIGN, {"n": 1, "code": "ABC"}) == f"code: must be {wanted}, got 'ABC'"
    assert (
        problem(FOREIGN, {"n": 1, "point": {"x": 1, "z": 2}})
        == "unknown field 'point.z' (known: x, y)"
    )


@BOTH
def test_nesting_is_limited(schema: InputSchema) -> None:
    deep: Any = []
    for _ in range(101):
        deep = [deep]
    for value in (deep, json.dumps(deep)):
        assert problem(schema, {"n": 1, "points": value}) == "it is nested too deeply"


def test_integral_float_is_an_integer_if_json_schema_says_so() -> None:
    assert FOREIGN.validate({"n": 1.0})["n"] == 1
    assert problem(EVERYTHING, {"n": 1.0}) == "n: must be an integer >= 0, got 1.0"


def test_unknown_fields_are_refused_unless_the_model_allows_them() -> None:
    class Ignoring(BaseModel):
        model_config = ConfigDict(extra="ignore")
        a: int = 1

    class Forbidding(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int = 1
        inner: Forbidding | None = None

    class Allowing(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int = 1

    assert problem(InputSchema.of(Ignoring), {"b": 1}) == "unknown field 'b' (known: a)"
    assert problem(InputSchema.of(Forbidding), {"b": 1}) == "unknown field 'b' (known: a, inner)"
    assert problem(InputSchema.of(Forbidding), {"inner": {"innr": 1}}) == (
        "unknown field 'inner.innr' (did you mean 'inner'?)"
    )
    assert InputSchema.of(Allowing).validate({"b": [1]}) == {"a": 1, "b": [1]}
    assert InputSchema.of(Allowing).json_schema["additionalProperties"] is True


class Cat(BaseModel):
    lives: int = 9


class Dog(BaseModel):
    bark: bool = True
    friends: list[Cat | Dog] = []


class Tagged(BaseModel):
    model_config = ConfigDict(extra="allow")
    cat: Cat = Cat()


class Renamed(BaseModel):
    size: int = Field(0, validation_alias=AliasChoices("size", "big"))
    depth: int = Field(0, validation_alias=AliasPath("inner", "depth"))
    weight: int = Field(0, serialization_alias="kg")


@dataclass
class Kennel:
    size: int = 0


class Nested(SignatureModel):
    pet: Cat | Dog = Cat()
    free: Cat | dict[str, int] = Cat()
    by_name: dict[str, Dog] = Field(default={})
    pair: tuple[int, Cat] = (0, Cat())
    tagged: Tagged = Tagged()
    kennel: Kennel = Kennel()
    renamed: Renamed = Renamed()
    made: Annotated[Cat, AfterValidator(lambda cat: Dog())] = Cat()


@pytest.mark.parametrize(
    ("given", "unknown"),
    [
        ({"pet": {"friends": [{"bark": False}, {"lives": 2}]}, "tagged": {"name": "Tom"}}, ""),
        ({"free": {"lives": 3, "weight": 4}}, ""),
        ({"renamed": {"big": 1, "inner": {"depth": 2}}, "made": {"lives": 3}}, ""),
        ({"renamed": {"bigg": 1}}, "'renamed.bigg' (known: size, depth, weight)"),
        ({"pet": {"lives": 3, "livs": True}}, "'pet.livs' (did you mean 'lives'?)"),
        (
            {"pet": {"friends": [{}, {"bark": True, "name": 2}]}},
            "'pet.friends[1].name' (known: bark, friends)",
        ),
        ({"by_name": {"rex": {"brk": True}}}, "'by_name.rex.brk' (did you mean 'bark'?)"),
        ({"pair": [1, {"live": 2}]}, "'pair[1].live' (did you mean 'lives'?)"),
        ({"tagged": {"cat": {"name": "Tom"}}}, "'tagged.cat.name' (known: lives)"),
        ({"kennel": {"sise": 1}}, "'kennel.sise' (did you mean 'size'?)"),
    ],
)
def test_unknown_fields_are_refused_at_any_depth(given: dict[str, Any], unknown: str) -> None:
    schema = InputSchema.of(Nested)
    if unknown:
        assert problem(schema, given) == f"unknown field {unknown}"
    else:
        assert schema.validate(schema.validate(given))


@pytest.mark.parametrize(
    ("more", "emitted", "accepted"),
    [
        ({}, False, False),
        ({"additionalProperties": True}, True, True),
        ({"additionalProperties": {"type": "integer"}}, {"type": "integer"}, True),
        ({"patternProperties": {"^b$": {}}}, None, True),
        ({"patternProperties": {"^c$": {}}, "additionalProperties": False}, False, False),
        ({"unevaluatedProperties": False}, None, False),
    ],
)
def test_schema_is_closed_by_default(more: dict[str, Any], emitted: Any, accepted: bool) -> None:
    schema = InputSchema.of({"type": "object", "properties": {"a": {}}, **more})
    assert schema.json_schema.get("additionalProperties") == emitted
    if accepted:
        assert schema.validate({"b": 1}) == {"b": 1}
    else:
        assert "b" in problem(schema, {"b": 1})


def test_schema_without_properties_accepts_no_args() -> None:
    schema = InputSchema.of({"type": "object"})
    assert schema.json_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert schema.validate({}) == {}
    assert problem(schema, {"a": 1}) == "unknown field 'a'"


def test_aliases_are_what_the_model_sees() -> None:
    class Inner(BaseModel):
        model_config = ConfigDict(alias_generator=to_camel)
        deep_value: int = 1

    class Camel(BaseModel):
        model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)
        long_name: str
        read_as: int = Field(1, validation_alias="readIt")
        inner_one: Inner = Inner()

    schema = InputSchema.of(Camel)
    assert list(schema.json_schema["properties"]) == ["longName", "readIt", "innerOne"]
    expected = {"longName": "x", "readIt": 2, "innerOne": {"deepValue": 3}}
    assert (
        schema.validate({"longName": "x", "readIt": "2", "innerOne": {"deepValue": 3}}) == expected
    )
    assert problem(schema, {"long_name": "x"}).startswith(
        "missing field 'longName' (a string); unknown field 'long_name'"
    )


def test_validators_of_a_model_use_their_own_messages() -> None:
    class Even(BaseModel):
        n: int
        low: int = 0

        @field_validator("n")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return 10 // value

        @model_validator(mode="after")
        def ordered(self) -> Even:
            if self.low > 5:
                raise ValueError("low is too high")
            return self

        @computed_field  # type: ignore[prop-decorator]
        @property
        def double(self) -> int:
            return self.n * 2

    schema = InputSchema.of(Even)
    assert problem(schema, {"n": 3}) == "n: must be even"
    assert problem(schema, {"n": 2, "low": 6}) == "low is too high"
    assert problem(schema, {"n": 0}) == "the input cannot be checked (ZeroDivisionError)"


def test_approval_gets_normalised_values() -> None:
    class Stripped(BaseModel):
        model_config = ConfigDict(str_strip_whitespace=True)
        command: str

    assert InputSchema.of(Stripped).validate({"command": " rm "}) == {"command": "rm"}


def test_fields_omitted_by_a_dump_are_kept() -> None:
    class Hidden(BaseModel):
        key: str = Field(exclude=True)
        n: int = 1

    assert InputSchema.of(Hidden).validate({"key": "k"}) == {"key": "k", "n": 1}


def test_draft_named_by_the_schema_applies() -> None:
    tuples = {"type": "array", "items": [{"type": "integer"}], "additionalItems": False}
    draft = "http://json-schema.org/draft-07/schema#"
    schema = InputSchema.of({"$schema": draft, "type": "object", "properties": {"t": tuples}})
    assert schema.validate({"t": [1]}) == {"t": [1]}
    assert problem(schema, {"t": [1, 2]}).startswith("t: ")


def test_references_are_never_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("somebody opened a connection")

    monkeypatch.setattr(socket, "socket", refuse)
    inner = {"$id": "http://example.org/inner", "$ref": "#/$defs/outer"}
    schema = InputSchema.of({"type": "object", "properties": {"a": inner}, "$defs": {"outer": {}}})
    assert problem(schema, {"a": 1}).startswith("the input cannot be checked (")


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        (SCHEMA, None),
        ({"type": "object"}, None),
        (
            {
                "type": "object",
                "properties": {"$ref": {"type": "string", "default": {"$ref": "https://x"}}},
            },
            "property name",
        ),
        ({"type": "object", "properties": {"a": {"default": {"$ref": "https://x"}}}}, None),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, None),
        ({"type": "object", "properties": {"a": {"$anchor": "x"}, "b": {"$ref": "#x"}}}, None),
        ([], "the schema must be a JSON Schema object or a pydantic model, not list"),
        (int, "the schema must be a JSON Schema object or a pydantic model, not type"),
        ({}, 'the top level must have "type": "object"'),
        ({"type": "string"}, 'the top level must have "type": "object"'),
        ({"type": ["object", "null"]}, 'the top level must have "type": "object"'),
        (
            {"type": "object", "properties": []},
            '"properties" must be a mapping from names to schemas',
        ),
        (
            {"type": "object", "properties": {"a b": {}}},
            "property name 'a b' must match ^[a-zA-Z0-9_.-]{1,64}$",
        ),
        ({"type": "object", "properties": {"a" * 65: {}}}, "property name"),
        ({"type": "object", "properties": {"": {}}}, "property name ''"),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["b"]},
            "\"required\" names 'b', which is not under",
        ),
        ({"type": "object", "required": [[]]}, '"required" names []'),
        (
            {"type": "object", "required": True},
            "required: not valid JSON Schema: True is not of type 'array'",
        ),
        ({"type": "object", "anyOf": [{}]}, '"anyOf" at the top level is refused by providers'),
        ({"type": "object", "oneOf": [{}]}, '"oneOf" at the top level'),
        ({"type": "object", "allOf": [{}]}, '"allOf" at the top level'),
        (
            {"type": "object", "properties": {"a": {"type": "strin"}}},
            "properties.a.type: not valid JSON Schema: 'strin'",
        ),
        (
            {"type": "object", "properties": {"a": {"pattern": "("}}},
            "properties.a.pattern: not valid JSON Schema",
        ),
        (
            {"type": "object", "properties": {"a": {"pattern": "a{99999999999}"}}},
            "the schema cannot be checked: ",
        ),
        ({"type": "object", "properties": {"a": 3}}, "properties.a: not valid JSON Schema: 3"),
        ({"type": "object", "$schema": 3}, "the schema cannot be checked: "),
        (
            {"type": "object", "properties": {"a": {"$ref": "https://example.org/x.json"}}},
            "$ref 'https://example.org/x.json' is remote and never fetched; copy the definition under $defs",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "other.json#/a"}}},
            "$ref 'other.json#/a' is remote",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}},
            "$ref '#/$defs/b' does not exist in this",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
            "$ref '#/properties/a' is circular",
        ),
        (
            {"type": "object", "default": {1}},
            "the schema cannot be used: it is not plain JSON: Object of type set",
        ),
        (
            {"type": "object", "default": math.inf},
            "the schema cannot be used: it is not plain JSON: Out of range",
        ),
    ],
)
def test_lint_names_each_problem_of_a_schema(schema: Any, sentence: str | None) -> None:
    problems = lint(schema)
    if sentence is None:
        assert problems == []
        InputSchema.of(schema)
    else:
        assert problems[0].startswith(sentence)
        with pytest.raises(SchemaError) as caught:
            InputSchema.of(schema)
        assert str(caught.value) == problems[0]


def circles(*ways_out: Any) -> dict[str, Any]:
    everyone = [{"$ref": f"#/$defs/d{index}"} for index in range(16)]
    definitions = {f"d{index}": {"anyOf": [*ways_out, *everyone]} for index in range(16)}
    return {"type": "object", "properties": {"a": {"anyOf": everyone}}, "$defs": definitions}


NEVER_ENDS = "the input cannot be checked: references in the schema of the tool never end"


def test_circular_schemas_terminate() -> None:
    assert lint(circles())[0] == "$ref '#/$defs/d0' is circular"
    schema = InputSchema.of(circles({"type": "integer"}))
    assert schema.validate({"a": "1"}) == {"a": 1}
    assert problem(schema, {"a": None}) == NEVER_ENDS


anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers() | st.just(5000).map(lambda digits: 10**digits),
        st.floats(),
        st.text(st.characters()),
        st.binary(),
        st.sampled_from(
            [Colour.RED, Path("x"), {1, 2}, object(), "[", '{"x": NaN}', '{"x": "1"}', "\ud800"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner),
        st.dictionaries(
            st.sampled_from(["x", "y", "z"]) | st.integers() | st.none(), inner, max_size=3
        ),
    ),
    max_leaves=8,
)
fields = st.sampled_from([*Everything.model_fields, "code", "unknown"])


@BOTH
@given(args=anything | st.dictionaries(fields, anything))
def test_validate_refuses_with_invalid_input_or_gives_json(schema: InputSchema, args: Any) -> None:
    try:
        validated = schema.validate(args)
    except InvalidInput as refused:
        assert str(refused)
        assert str(refused).encode()
        assert len(str(refused)) < 3000
    else:
        assert json.loads(json.dumps(validated, allow_nan=False)) == validated
        assert schema.validate(validated) == validated


def schema_of(field: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": field}, **more}


ITEM = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}, "required": ["a"]}
SCALE = {"type": "string", "default": "css"}


def elsewhere(**declared: Any) -> dict[str, Any]:
    """A required field whose default is in another part of the schema."""
    return {
        **schema_of(declared, required=["x"]),
        "$defs": {"Scale": SCALE, "Alias": {"$ref": "#/$defs/Scale"}},
    }


@pytest.mark.parametrize(
    ("schema", "args", "filled"),
    [
        (schema_of({"type": "string", "default": "css"}, required=["x"]), {}, {"x": "css"}),
        (schema_of({"type": "string", "default": "css"}, required=["x"]), {"x": "b"}, {"x": "b"}),
        (elsewhere(**{"$ref": "#/$defs/Scale"}), {}, {"x": "css"}),
        (elsewhere(**{"$ref": "#/$defs/Alias"}), {}, {"x": "css"}),
        (elsewhere(**{"$ref": "#/$defs/Alias", "default": "own"}), {}, {"x": "own"}),
        (elsewhere(allOf=[{"$ref": "#/$defs/Scale"}]), {}, {"x": "css"}),
        (elsewhere(allOf=[{"$ref": "#/$defs/Scale"}]), {"x": "b"}, {"x": "b"}),
        (schema_of(ITEM), {"x": {}}, {"x": {"a": 1}}),
        (schema_of({**ITEM, "default": {}}, required=["x"]), {}, {"x": {"a": 1}}),
        (
            schema_of({"type": "array", "items": ITEM}),
            {"x": [{}, {"a": 2}]},
            {"x": [{"a": 1}, {"a": 2}]},
        ),
        (schema_of({"$ref": "#/$defs/i"}, **{"$defs": {"i": ITEM}}), {"x": {}}, {"x": {"a": 1}}),
        (schema_of({"allOf": [ITEM]}), {"x": {}}, {"x": {"a": 1}}),
    ],
)
def test_default_is_filled_before_a_required_field_is_checked(
    schema: Any, args: Any, filled: Any
) -> None:
    given_args = json.loads(json.dumps(args))
    assert InputSchema.of(schema).validate(args) == filled
    assert args == given_args


def test_invalid_default_is_ignored() -> None:
    with pytest.raises(InvalidInput, match="missing field 'x'"):
        InputSchema.of(schema_of({"type": "string", "default": None}, required=["x"])).validate({})


PIECES = [
    "a",
    "b",
    "[ab]",
    "(a|b)",
    "(?:ab)",
    ".",
    r"\w",
    r"\d",
    "^",
    "$",
    "*",
    "+",
    "?",
    "{2}",
    "|",
]
PATTERNS = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)


@given(PATTERNS, st.text("ab1", max_size=8))
def test_linear_patterns_match_like_those_of_python(pattern: str, text: str) -> None:
    try:
        expected = re.search(pattern, text) is not None
    except re.error:
        return
    if matcher := linear_matcher(pattern):
        assert matcher(text) is expected


@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "(.*)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", "^(a?){40}a{40}$"]
)
def test_backtracking_patterns_end_at_once(pattern: str) -> None:
    by_name = {
        "type": "object",
        "patternProperties": {pattern: {"type": "integer"}},
        "additionalProperties": False,
    }
    text = "a" * 5000 + "!"
    for field, value in (({"type": "string", "pattern": pattern}, text), (by_name, {text: "no"})):
        with pytest.raises(
            InvalidInput, match=r"must be a string matching|unknown field|must be an integer"
        ):
            InputSchema.of(schema_of(field)).validate({"x": value})


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_exponential_references_are_aborted(keyword: str) -> None:
    defined: dict[str, Any] = {
        f"a{at}": {keyword: [{"$ref": f"#/$defs/a{at + 1}"}] * 2} for at in range(30)
    }
    defined["a30"] = {"type": "null"}
    with pytest.raises(
        InvalidInput, match="its references and alternatives have too many combinations"
    ):
        InputSchema.of(schema_of({"$ref": "#/$defs/a0"}, **{"$defs": defined})).validate({"x": 1})


def test_nested_dialect_is_checked_like_the_rest() -> None:
    draft = "http://json-schema.org/draft-07/schema#"
    inner = {"$schema": draft, "type": "string", "pattern": "^(a+)+$"}
    schema = schema_of(
        {"$ref": "#/definitions/i"}, **{"$schema": draft, "definitions": {"i": inner}}
    )
    with pytest.raises(InvalidInput, match="must be a string matching"):
        InputSchema.of(schema).validate({"x": "a" * 5000 + "!"})
