"""Problems of a tool's input as sentences, each with the place of the invalid field."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from forge_cli.core.text import cut, did_you_mean
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, choices, member
from forge_cli.schema.json.validation import best_error, in_short
from forge_cli.schema.marks import Loc, dotted

if TYPE_CHECKING:
    from jsonschema import ValidationError as JsonSchemaError

_PLACE = 200
"""The most characters of a place."""
_NOUNS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
_LIMITS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "of at least {} characters",
    "maxLength": "of at most {} characters",
    "pattern": "matching {!r}",
    "minItems": "of at least {} items",
    "maxItems": "of at most {} items",
}
_MAX_LISTED = 10
_SCHEMA_KEYWORDS = frozenset(
    {
        "type",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
    }
    | {"multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems"}
)


def expectation(schema: Any, root: JsonObject) -> str:
    """Describe the expected value, such as ``an integer >= 0 or null``; empty if unknown."""
    described = [_describe(branch) for branch in alternatives(schema, root)]
    if not all(described):
        return ""
    return " or ".join(dict.fromkeys(described))


def _describe(branch: JsonObject) -> str:
    if (listed := choices(branch)) is not None:
        few = ", ".join(map(shown, listed[:_MAX_LISTED]))
        if len(listed) == 1:
            return few
        if len(listed) > _MAX_LISTED:
            few += ", ..."
        return f"one of {few}"
    declared = branch.get("type", [])
    if isinstance(declared, str):
        declared = [declared]
    nouns = " or ".join(_NOUNS.get(name, name) for name in declared)
    limits: list[str] = []
    for keyword, text in _LIMITS.items():
        if keyword in branch:
            limit = branch[keyword]
            # "at least 1 character", but "at least 2 characters"
            if limit == 1:
                text = text.removesuffix("s")
            limits.append(text.format(limit))
    if not nouns or declared == ["null"]:
        return nouns
    if "format" in branch and "string" in declared:
        nouns += f" ({branch['format']})"
    if not limits:
        return nouns
    return f"{nouns} {' and '.join(limits)}"


def shown(value: Any) -> str:
    """Return a value as messages show it: short, and with control characters escaped."""
    match value:
        case None | bool():
            return json.dumps(value)
        case str() | int() | float():
            return cut(repr(value), 60, "end")
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a value of type {type(value).__name__}"


def schema_problems(error: JsonSchemaError, root: JsonObject) -> list[str]:
    """Return the problems that the library found, in forge's words."""
    error = best_error(error)
    path = tuple(error.absolute_path)
    keyword = error.validator
    value: Any = error.instance
    schema: Any = error.schema
    if keyword == "required":
        return [
            missing_field((*path, name), root) for name in schema["required"] if name not in value
        ]
    if keyword == "additionalProperties" and schema[keyword] is False:
        known = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        problems: list[str] = []
        for name in value:
            if name not in known and not _is_named(name, patterns):
                problems.append(unknown_field((*path, name), known))
        return problems
    # For other keywords, or a value that fits several alternatives, the type is not the problem.
    unsaid = keyword not in _SCHEMA_KEYWORDS or (keyword == "oneOf" and not error.context)
    if not unsaid and (expected := expectation(schema, root)):
        return [problem_at(path, f"must be {expected}, got {shown(value)}")]
    return [problem_at(path, in_short(error.message))]


def declared_at(path: Loc, schema: JsonObject) -> Any:
    """Return the schema that is declared for a place in the args."""
    declared: Any = schema
    for step in path:
        inner: Any = {}
        for branch in alternatives(declared, schema):
            inner = member(branch, step)
            if inner:
                break
        declared = inner or {}
    return declared


def missing_field(path: Loc, schema: JsonObject) -> str:
    """Return the problem of a missing required field, with its expected value."""
    expected = expectation(declared_at(path, schema), schema)
    problem = f"missing field '{_place(path)}'"
    if expected:
        problem += f" ({expected})"
    return problem


def _is_named(name: str, patterns: Iterable[str]) -> bool:
    from forge_cli.schema.json.bounded import is_found

    return any(is_found(pattern, name) for pattern in patterns)


def unknown_field(path: Loc, known: Collection[str]) -> str:
    """Return the problem of an unknown field, with the nearest known name."""
    listed = ""
    if known:
        listed = f"known: {', '.join(islice(known, 10))}"
    remedy = did_you_mean(str(path[-1]), known, listed)
    problem = f"unknown field '{_place(path)}'"
    if remedy:
        problem += f" ({remedy})"
    return problem


def problem_at(path: Loc, text: str) -> str:
    """Return a problem with its place in front."""
    if not path:
        return text
    return f"{_place(path)}: {text}"


def _place(path: Loc) -> str:
    place = dotted(path)
    return cut(place if place.isprintable() else ascii(place)[1:-1], _PLACE, "end")
