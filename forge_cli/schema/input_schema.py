"""A tool's input: one schema that the model sees, that validates what comes back, and that says what was wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from forge_cli import schema as room
from forge_cli.core.errors import PROBLEMS, InvalidInput, SchemaError
from forge_cli.core.wire import MAX_BITS, NESTING, JsonObject
from forge_cli.schema.fields import coerce

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from pydantic import BaseModel

    from forge_cli.schema.marks import Loc

_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINED = ("allOf", "anyOf", "oneOf")
_OPEN = frozenset({*_COMBINED, "$ref", "additionalProperties", "patternProperties", "unevaluatedProperties"})


@dataclass(frozen=True, eq=False)
class InputSchema:
    """The input of a tool: the JSON Schema shown to the model, and the validation derived from the same thing."""

    json_schema: JsonObject
    model: type[BaseModel] | None = None

    @classmethod
    def of(cls, schema: JsonObject | type[BaseModel]) -> InputSchema:
        """Build it once a tool; an unsound schema is a SchemaError with the first problem."""
        if isinstance(schema, type) and room.signature.is_model(schema):
            emitted = room.signature.model_schema(schema)
            for problem in _shape_problems(emitted):
                raise SchemaError(f"{schema.__name__}: {problem}")
            return cls(emitted, schema)
        for problem in lint(schema):
            raise SchemaError(problem)
        return cls(_closed(_plain(schema, limit=2 * NESTING)))

    def validate(self, args: Any) -> JsonObject:
        """New plain args in the order of the schema, strings coerced and defaults filled in; else InvalidInput."""
        try:
            if not isinstance(args, Mapping):
                raise InvalidInput(f"the input must be an object, got {room.problems.shown(args)}")
            given = _plain(args)
            coerced = _plain(coerce(given, self.json_schema))
            if self.model is None:
                return self._by_schema(coerced)
            return room.signature.validate_by_model(self.model, coerced, self.json_schema)
        except InvalidInput:
            raise
        except Exception as error:  # third-party code: the validators of a model, mappings, schemas that never end
            raise InvalidInput(f"the input cannot be checked ({type(error).__name__})") from error

    def _by_schema(self, args: JsonObject) -> JsonObject:
        errors = islice(self._validator.iter_errors(args), 4 * PROBLEMS)
        problems = [each for error in errors for each in room.problems.schema_problems(error, self.json_schema)]
        if problems:
            raise InvalidInput(*problems)
        return self._fill(args)

    def _fill(self, args: JsonObject) -> JsonObject:
        """Valid args with defaults, in the order of the schema."""
        filled = {**_plain(self._defaults), **args}
        return {name: filled[name] for name in (*self.json_schema["properties"], *filled) if name in filled}

    @cached_property
    def _validator(self) -> Validator:
        return room.json_schema.validator(self.json_schema)

    @cached_property
    def _defaults(self) -> JsonObject:
        """The defaults that fit their own schema: ``null`` for a string stays out, as if nothing had been said."""
        declared = self.json_schema["properties"].items()
        named = {name: each["default"] for name, each in declared if isinstance(each, dict) and "default" in each}
        wrong = {next(iter(error.absolute_path), None) for error in self._validator.iter_errors(named)}
        return {name: value for name, value in named.items() if name not in wrong}


def lint(schema: object) -> list[str]:
    """Problems that would make a provider reject the tool; an empty list for a sound schema."""
    if not isinstance(schema, dict):
        return [f"the schema must be a JSON Schema object or a pydantic model, not {type(schema).__name__}"]
    try:
        plain = _plain(schema, limit=2 * NESTING)
    except InvalidInput as error:
        return [f"the schema is not plain JSON: {error}"]
    problems = [*_shape_problems(plain), *room.json_schema.reference_problems(plain)]
    if problems or not (problem := room.json_schema.metaschema_problem(plain)):
        return problems
    return [
        room.problems.problem_at(problem.loc, problem.sentence)
        if problem.json_path
        else f"the schema {problem.sentence}"
    ]


def _shape_problems(schema: JsonObject) -> Iterator[str]:
    if schema.get("type") != "object":
        yield 'the top level must say "type": "object"'
    for keyword in _COMBINED:
        if keyword in schema:
            yield f'"{keyword}" at the top level is refused by providers; describe the fields under "properties"'
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        yield '"properties" must be a mapping from names to schemas'
        return
    for name in properties:
        if not _PROPERTY_NAME.fullmatch(name):
            yield f"property name {name!r} must match ^{_PROPERTY_NAME.pattern}$"
    required = schema.get("required", [])
    for name in required if isinstance(required, list) else ():
        if not isinstance(name, str) or name not in properties:
            yield f'"required" names {name!r}, which is not under "properties"'


def _closed(schema: JsonObject) -> JsonObject:
    closing = {} if _OPEN & schema.keys() else {"additionalProperties": False}
    return {"properties": {}, **schema, **closing}


def _plain(value: Any, path: Loc = (), limit: int = NESTING) -> Any:
    """A copy in JSON's own types; what JSON cannot carry is InvalidInput."""
    match value:
        case Mapping() | list() | tuple() if limit == 0:
            raise InvalidInput("nested too deeply")
        case Mapping():
            return {_key(key, path): _plain(item, (*path, key), limit - 1) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, (*path, index), limit - 1) for index, item in enumerate(value)]
        case None | bool():
            return value
        case str():
            return _text(value, path)
        case float() if math.isfinite(value):
            return float(value)
        case int() if value.bit_length() <= MAX_BITS:
            return int(value)
        case float() | int():
            raise InvalidInput(room.problems.problem_at(path, "must be a number that JSON can carry"))
    raise InvalidInput(room.problems.problem_at(path, f"must be plain JSON, not {type(value).__name__}"))


def _key(key: Any, path: Loc) -> str:
    if not isinstance(key, str):
        raise InvalidInput(
            room.problems.problem_at(path, f"the names of an object must be strings, not {type(key).__name__}")
        )
    return _text(key, path)


def _text(value: str, path: Loc) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInput(
            room.problems.problem_at(path, "must be text that UTF-8 can carry, got a lone surrogate")
        ) from None
    return str.__str__(value)
