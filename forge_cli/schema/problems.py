"""Problems of the input of a tool, in words: one sentence for each wrong field, with its place."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, AliasPath, BaseModel

from forge_cli.core.text import cut, did_you_mean
from forge_cli.core.wire import JsonObject
from forge_cli.schema.fields import alternatives, choices, member
from forge_cli.schema.json_schema import best_error, in_short
from forge_cli.schema.marks import Loc, dotted
from forge_cli.schema.signature import input_name

if TYPE_CHECKING:
    from jsonschema import ValidationError as JsonSchemaError
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_PLACE = 200
"""Characters of the place of a problem."""
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
_LISTED = 10
_SCHEMA_KEYWORDS = frozenset(
    {"type", "enum", "const", "anyOf", "oneOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems"}
)
_PYDANTIC_TYPES = frozenset(
    {"bool_type", "dataclass_type", "dict_type", "enum", "float_type", "frozen_set_type", "greater_than"}
    | {"greater_than_equal", "int_from_float", "int_type", "less_than", "less_than_equal", "list_type", "literal_error"}
    | {"model_type", "multiple_of", "none_required", "set_type", "string_pattern_mismatch", "string_too_long"}
    | {"string_too_short", "string_type", "too_long", "too_short", "tuple_type"}
)


def expectation(schema: Any, root: JsonObject) -> str:
    """The value that is expected, in words: ``an integer >= 0 or null``; empty where the schema does not say."""
    described = [_describe(branch) for branch in alternatives(schema, root)]
    return " or ".join(dict.fromkeys(described)) if all(described) else ""


def _describe(branch: JsonObject) -> str:
    if (listed := choices(branch)) is not None:
        more = ", ..." if len(listed) > _LISTED else ""
        return ("one of " if len(listed) > 1 else "") + ", ".join(map(shown, listed[:_LISTED])) + more
    declared = branch.get("type", [])
    nouns = [_NOUNS.get(name, name) for name in ([declared] if isinstance(declared, str) else declared)]
    stated = {text: branch[keyword] for keyword, text in _LIMITS.items() if keyword in branch}
    limits = [(text.removesuffix("s") if limit == 1 else text).format(limit) for text, limit in stated.items()]
    if not nouns or (limits and nouns == ["null"]):
        return " or ".join(nouns)
    named = f" ({branch['format']})" if "format" in branch and "string" in declared else ""
    return " or ".join(nouns) + named + (f" {' and '.join(limits)}" if limits else "")


def shown(value: Any) -> str:
    """A value as an error sentence names it: short, and with control characters escaped."""
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
    """The findings of the library, in our words."""
    error = best_error(error)
    path, keyword = tuple(error.absolute_path), error.validator
    value: Any = error.instance
    schema: Any = error.schema
    if keyword == "required":
        return [missing_field((*path, name), root) for name in schema["required"] if name not in value]
    if keyword == "additionalProperties" and schema[keyword] is False:
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        extra = [name for name in value if name not in known and not _is_named(name, patterns)]
        return [unknown_field((*path, name), known) for name in extra]
    unsaid = keyword not in _SCHEMA_KEYWORDS or (keyword == "oneOf" and not error.context)
    expected = "" if unsaid else expectation(schema, root)
    if expected:
        return [problem_at(path, f"must be {expected}, got {shown(value)}")]
    return [problem_at(path, in_short(error.message))]


def declared_at(path: Loc, schema: JsonObject) -> Any:
    declared: Any = schema
    for step in path:
        said = [member(branch, step) for branch in alternatives(declared, schema)]
        declared = next((each for each in said if each), {})
    return declared


def missing_field(path: Loc, schema: JsonObject) -> str:
    expected = expectation(declared_at(path, schema), schema)
    return f"missing field '{_place(path)}'" + (f" ({expected})" if expected else "")


def _is_named(name: str, patterns: Iterable[str]) -> bool:
    from forge_cli.schema.bounded import is_found

    return any(is_found(pattern, name) for pattern in patterns)


def unknown_field(path: Loc, known: Collection[str]) -> str:
    remedy = did_you_mean(str(path[-1]), known, f"known: {', '.join(islice(known, 10))}" if known else "")
    return f"unknown field '{_place(path)}'" + (f" ({remedy})" if remedy else "")


def problem_at(path: Loc, text: str) -> str:
    return f"{_place(path)}: {text}" if path else text


def _place(path: Loc) -> str:
    place = dotted(path)
    return cut(place if place.isprintable() else ascii(place)[1:-1], _PLACE, "end")


def model_problems(error: ValidationError, args: JsonObject, schema: JsonObject) -> list[str]:
    """The findings of pydantic, in our words."""
    found: dict[Loc, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_path_in(args, detail), []).append(detail)
    inner = {path[:length] for path in found for length in range(len(path))}
    return [
        _model_problem(path, details, schema)
        for path, details in found.items()
        if path not in inner or not all(detail["type"] in _PYDANTIC_TYPES for detail in details)
    ]


def _path_in(data: Any, detail: ErrorDetails) -> Loc:
    """The place of the error in the args: pydantic's own location also names the alternatives of a union."""
    path: list[str | int] = []
    for step in detail["loc"]:
        within = data if isinstance(data, dict) else dict(enumerate(data)) if isinstance(data, list) else {}
        if step in within:
            path.append(step)
            data = within[step]
    return (*path, detail["loc"][-1]) if detail["type"] == "missing" else tuple(path)


def _model_problem(path: Loc, details: list[ErrorDetails], schema: JsonObject) -> str:
    kind, text, value = details[0]["type"], details[0]["msg"], details[0]["input"]
    if kind == "missing":
        return missing_field(path, schema)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        around = alternatives(declared_at(path[:-1], schema), schema)
        return unknown_field(path, [name for branch in around for name in branch.get("properties", {})])
    if len(details) > 1 or kind in _PYDANTIC_TYPES:
        expected = expectation(declared_at(path, schema), schema)
        if expected:
            return problem_at(path, f"must be {expected}, got {shown(value)}")
    if text.startswith("Input should be "):
        return problem_at(path, f"must be {text.removeprefix('Input should be ')}, got {shown(value)}")
    return problem_at(path, text.removeprefix("Value error, ").removeprefix("Assertion failed, "))


def dropped_fields(value: Any, given: Any, schema: JsonObject, path: Loc = ()) -> Iterator[str]:
    """Unknown fields of models at any depth, which pydantic leaves out: a value tells which model of a union it is."""
    parts: dict[Any, Any] = given if isinstance(given, dict) else {}
    fields: dict[Any, Any] = {}
    if isinstance(value, BaseModel) and not value.__pydantic_root_model__:
        fields = {input_name(name, info): getattr(value, name) for name, info in type(value).model_fields.items()}
        read = {*fields, *value.model_fields_set, *_other_names(type(value)), *(value.model_extra or {})}
        around = alternatives(declared_at(path, schema), schema)
        is_open = any(branch.get("additionalProperties") for branch in around)
        if not is_open and any(branch.get("properties", {}).keys() == fields.keys() for branch in around):
            yield from (unknown_field((*path, name), fields) for name in parts if name not in read)
    elif isinstance(value, dict):
        fields = value
    elif isinstance(value, list | tuple) and isinstance(given, list) and len(value) == len(given):
        parts, fields = dict(enumerate(given)), dict(enumerate(value))
    for name in parts:
        if name in fields:
            yield from dropped_fields(fields[name], parts[name], schema, (*path, name))


def _other_names(model: type[BaseModel]) -> Iterator[str]:
    """Names under which fields may come besides that of the schema: other aliases, and those of args written before."""
    for info in model.model_fields.values():
        alias = info.validation_alias
        for choice in alias.choices if isinstance(alias, AliasChoices) else [alias]:
            yield str(choice.path[0] if isinstance(choice, AliasPath) else choice)
        yield str(info.serialization_alias)
