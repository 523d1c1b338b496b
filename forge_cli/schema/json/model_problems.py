"""Problems that pydantic finds in a tool's input, as sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pydantic import AliasChoices, AliasPath, BaseModel

from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives
from forge_cli.schema.json.problems import (
    declared_at,
    expectation,
    missing_field,
    problem_at,
    shown,
    unknown_field,
)
from forge_cli.schema.json.signature import input_name
from forge_cli.schema.marks import Loc

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_PYDANTIC_TYPES = frozenset(
    {
        "bool_type",
        "dataclass_type",
        "dict_type",
        "enum",
        "float_type",
        "frozen_set_type",
        "greater_than",
    }
    | {
        "greater_than_equal",
        "int_from_float",
        "int_type",
        "less_than",
        "less_than_equal",
        "list_type",
        "literal_error",
    }
    | {
        "model_type",
        "multiple_of",
        "none_required",
        "set_type",
        "string_pattern_mismatch",
        "string_too_long",
    }
    | {"string_too_short", "string_type", "too_long", "too_short", "tuple_type"}
)


def model_problems(error: ValidationError, args: JsonObject, schema: JsonObject) -> list[str]:
    """Return the problems that pydantic found, in forge's words."""
    found: dict[Loc, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_path_in(args, detail), []).append(detail)
    # Errors of a union come with those inside of its alternatives, which are more specific.
    outer: set[Loc] = set()
    for path in found:
        outer.update(path[:length] for length in range(len(path)))
    problems: list[str] = []
    for path, details in found.items():
        is_of_type = all(detail["type"] in _PYDANTIC_TYPES for detail in details)
        if path not in outer or not is_of_type:
            problems.append(_model_problem(path, details, schema))
    return problems


def _path_in(data: Any, detail: ErrorDetails) -> Loc:
    """Return the place of the error in the args.

    pydantic's location also contains the alternatives of unions, which are not in the args.
    """
    path: list[str | int] = []
    for step in detail["loc"]:
        within: dict[Any, Any] = {}
        if isinstance(data, dict):
            within = data
        elif isinstance(data, list):
            within = dict(enumerate(data))
        if step in within:
            path.append(step)
            data = within[step]
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return tuple(path)


def _model_problem(path: Loc, details: list[ErrorDetails], schema: JsonObject) -> str:
    kind = details[0]["type"]
    text = details[0]["msg"]
    value = details[0]["input"]
    if kind == "missing":
        return missing_field(path, schema)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        around = alternatives(declared_at(path[:-1], schema), schema)
        known: list[str] = []
        for branch in around:
            known += branch.get("properties", {})
        return unknown_field(path, known)
    # With several errors at one place, no alternative fits, so all of them are described.
    if len(details) > 1 or kind in _PYDANTIC_TYPES:
        expected = expectation(declared_at(path, schema), schema)
        if expected:
            return problem_at(path, f"must be {expected}, got {shown(value)}")
    if text.startswith("Input should be "):
        return problem_at(
            path, f"must be {text.removeprefix('Input should be ')}, got {shown(value)}"
        )
    return problem_at(path, text.removeprefix("Value error, ").removeprefix("Assertion failed, "))


def dropped_fields(value: Any, given: Any, schema: JsonObject, path: Loc = ()) -> Iterator[str]:
    """Yield problems of unknown fields that nested models dropped silently."""
    parts: dict[Any, Any] = given if isinstance(given, dict) else {}
    fields: dict[Any, Any] = {}
    if isinstance(value, BaseModel) and not value.__pydantic_root_model__:
        # The instance shows which model of a union was chosen, and so which fields it knows.
        fields = {
            input_name(name, info): getattr(value, name)
            for name, info in type(value).model_fields.items()
        }
        read = {
            *fields,
            *value.model_fields_set,
            *_other_names(type(value)),
            *(value.model_extra or {}),
        }
        around = alternatives(declared_at(path, schema), schema)
        is_open = any(branch.get("additionalProperties") for branch in around)
        if not is_open and any(
            branch.get("properties", {}).keys() == fields.keys() for branch in around
        ):
            for name in parts:
                if name not in read:
                    yield unknown_field((*path, name), fields)
    elif isinstance(value, dict):
        fields = value
    elif isinstance(value, list | tuple) and isinstance(given, list) and len(value) == len(given):
        parts = dict(enumerate(given))
        fields = dict(enumerate(value))
    for name in parts:
        if name in fields:
            yield from dropped_fields(fields[name], parts[name], schema, (*path, name))


def _other_names(model: type[BaseModel]) -> Iterator[str]:
    """Yield other accepted names of fields: further aliases, and those of recorded args."""
    for info in model.model_fields.values():
        alias = info.validation_alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        for choice in choices:
            yield str(choice.path[0] if isinstance(choice, AliasPath) else choice)
        yield str(info.serialization_alias)
