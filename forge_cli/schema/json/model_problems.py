"""Problems that pydantic finds in the input of a tool, in words."""

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
    """The findings of pydantic, in our words."""
    found: dict[Loc, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_path_in(args, detail), []).append(detail)
    inner: set[Loc] = set()
    for path in found:
        inner.update(path[:length] for length in range(len(path)))
    return [
        _model_problem(path, details, schema)
        for path, details in found.items()
        if path not in inner or not all(detail["type"] in _PYDANTIC_TYPES for detail in details)
    ]


def _path_in(data: Any, detail: ErrorDetails) -> Loc:
    """The place of the error in the args: pydantic's own location also names the alternatives of a union."""
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
    return (*path, detail["loc"][-1]) if detail["type"] == "missing" else tuple(path)


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
    """Unknown fields of models at any depth, which pydantic leaves out: a value tells which model of a union it is."""
    parts: dict[Any, Any] = given if isinstance(given, dict) else {}
    fields: dict[Any, Any] = {}
    if isinstance(value, BaseModel) and not value.__pydantic_root_model__:
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
            yield from (unknown_field((*path, name), fields) for name in parts if name not in read)
    elif isinstance(value, dict):
        fields = value
    elif isinstance(value, list | tuple) and isinstance(given, list) and len(value) == len(given):
        parts = dict(enumerate(given))
        fields = dict(enumerate(value))
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
