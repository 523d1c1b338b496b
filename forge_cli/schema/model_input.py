"""A tool's input where a pydantic model reads it: args that fit, and typed values."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from forge_cli import schema as room
from forge_cli.core.errors import InvalidInput
from forge_cli.core.wire import JsonObject
from forge_cli.schema.signature import keyword_args, model_schema, plain_args, read_strict


def typed_args(model: type[BaseModel], args: JsonObject) -> dict[str, Any]:
    """From validated plain args to the values that the function takes: a Path, a datetime, a nested model."""
    try:
        return keyword_args(read_strict(model, args))
    except ValidationError as error:
        raise InvalidInput(*room.problems.model_problems(error, args, model_schema(model))) from None


def validate_by_model(model: type[BaseModel], args: JsonObject, schema: JsonObject) -> JsonObject:
    known = schema["properties"]
    extra = [name for name in args if name not in known] if schema["additionalProperties"] is False else []
    given = {name: value for name, value in args.items() if name not in extra}
    problems: list[str] = []
    try:
        instance = read_strict(model, given)
    except ValidationError as error:
        problems = room.problems.model_problems(error, given, schema)
    problems += [room.problems.unknown_field((name,), known) for name in extra]
    if problems:
        raise InvalidInput(*problems)
    return plain_args(instance, given)
