"""JSON Schema: what is wrong with one, and the one sentence that says it."""

from typing import Any

import pytest

from forge_cli.schema.json_schema import (
    SENTENCE,
    SchemaProblem,
    best_error,
    in_short,
    metaschema_problem,
    reference_problems,
    validator,
)

from ..rows import each_row


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, None),
        (
            {"properties": {"a": {"type": 1}}},
            SchemaProblem(
                "not valid JSON Schema: 1 is not valid under any of the given schemas",
                ("properties", "a", "type"),
                "$.properties.a.type",
            ),
        ),
    ],
)
def test_what_is_not_json_schema_says_where(schema: dict[str, Any], problem: SchemaProblem | None) -> None:
    assert metaschema_problem(schema) == problem


def test_a_schema_that_cannot_be_checked_has_no_place() -> None:
    problem = metaschema_problem({"$schema": ["x"]})
    assert problem is not None
    assert (problem.sentence.startswith("cannot be checked: "), problem.json_path) == (True, "")


@each_row(
    ("schema", "problems"),
    [
        ({"$ref": "#/$defs/a", "$defs": {"a": {}}}, []),
        ({"$ref": "a.json"}, ["$ref 'a.json' is remote and never fetched; copy the definition under $defs"]),
        (
            {"$dynamicRef": "a.json"},
            ["$dynamicRef 'a.json' is remote and never fetched; copy the definition under $defs"],
        ),
        ({"$ref": "#/$defs/a"}, ["$ref '#/$defs/a' points at nothing in this schema"]),
        ({"$ref": "#"}, ["$ref '#' only leads back to itself"]),
        ({"default": {"$ref": "a.json"}}, []),
    ],
)
def test_references_stay_inside(schema: dict[str, Any], problems: list[str]) -> None:
    assert list(reference_problems(schema)) == problems


def test_the_error_of_the_alternative_that_came_nearest() -> None:
    either = {"anyOf": [{"type": "object", "properties": {"a": {"type": "integer"}}}, {"type": "string"}]}
    [error] = validator(either).iter_errors({"a": "x"})
    assert (best_error(error).json_path, best_error(error).message) == ("$.a", "'x' is not of type 'integer'")


def test_nothing_is_fetched() -> None:
    with pytest.raises(Exception, match="Unresolvable"):
        list(validator({"$ref": "https://example.invalid/a.json"}).iter_errors(1))


def test_a_long_sentence_keeps_both_ends() -> None:
    sentence = in_short(f"{['x'] * 500!r} is too long")
    assert sentence.startswith("['x', 'x'")
    assert sentence.endswith("is too long")
    assert len(sentence) <= SENTENCE
