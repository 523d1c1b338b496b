"""A tool's input where a pydantic model reads it: args that fit, typed values, and each problem as a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from forge_cli.core.fields import alternatives, expectation, shown
from forge_cli.core.marks import Loc
from forge_cli.core.schema import InvalidInput, declared_at, missing_field, problem_at, unknown_field
from forge_cli.core.signature import keyword_args, model_schema, plain_args, read_strict
from forge_cli.core.wire import JsonObject

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_PYDANTIC_TYPES = frozenset(
    {"bool_type", "dataclass_type", "dict_type", "enum", "float_type", "frozen_set_type", "greater_than"}
    | {"greater_than_equal", "int_from_float", "int_type", "less_than", "less_than_equal", "list_type", "literal_error"}
    | {"model_type", "multiple_of", "none_required", "set_type", "string_pattern_mismatch", "string_too_long"}
    | {"string_too_short", "string_type", "too_long", "too_short", "tuple_type"}
)


def typed_args(model: type[BaseModel], args: JsonObject) -> dict[str, Any]:
    """From validated plain args to the values that the function takes: a Path, a datetime, a nested model."""
    try:
        return keyword_args(read_strict(model, args))
    except ValidationError as error:
        raise InvalidInput(*_model_problems(error, args, model_schema(model))) from None


def validate_by_model(model: type[BaseModel], args: JsonObject, schema: JsonObject) -> JsonObject:
    known = schema["properties"]
    extra = [name for name in args if name not in known] if schema["additionalProperties"] is False else []
    given = {name: value for name, value in args.items() if name not in extra}
    problems: list[str] = []
    try:
        instance = read_strict(model, given)
    except ValidationError as error:
        problems = _model_problems(error, given, schema)
    problems += [unknown_field((name,), known) for name in extra]
    if problems:
        raise InvalidInput(*problems)
    return plain_args(instance, given)


def _model_problems(error: ValidationError, args: JsonObject, schema: JsonObject) -> list[str]:
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
    """Where in the args the error is: pydantic's own location also names the alternatives of a union."""
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
    if kind == "extra_forbidden":
        around = alternatives(declared_at(path[:-1], schema), schema)
        return unknown_field(path, [name for branch in around for name in branch.get("properties", {})])
    if len(details) > 1 or kind in _PYDANTIC_TYPES:
        expected = expectation(declared_at(path, schema), schema)
        if expected:
            return problem_at(path, f"must be {expected}, got {shown(value)}")
    if text.startswith("Input should be "):
        return problem_at(path, f"must be {text.removeprefix('Input should be ')}, got {shown(value)}")
    return problem_at(path, text.removeprefix("Value error, ").removeprefix("Assertion failed, "))
