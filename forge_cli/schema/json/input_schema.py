"""A tool's input: one schema that the model sees, that validates what comes back, and that says what was wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from forge_cli.core.errors import PROBLEMS, InvalidInput, SchemaError, TooManySteps
from forge_cli.core.wire import NESTING, JsonObject, inner_values, plain_json
from forge_cli.schema.json.fields import as_mapping, coerce, default_in
from forge_cli.schema.json.signature import (
    is_model,
    keyword_args,
    model_schema,
    plain_args,
    read_strict,
)

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_COMBINED = ("allOf", "anyOf", "oneOf")
_STEPS = 20_000
_STEPS_A_VALUE = 100
"""Keywords of a schema that are applied to an input, at most, and how many more for each value in it."""
OPEN = frozenset(
    {*_COMBINED, "$ref", "additionalProperties", "patternProperties", "unevaluatedProperties"}
)


class InputSchema:
    """The input of a tool: the JSON Schema shown to the model, and the validation derived from the same thing."""

    def __init__(self, json_schema: JsonObject, model: type[BaseModel] | None = None) -> None:
        self.json_schema = json_schema
        self.model = model

    @classmethod
    def of(cls, schema: JsonObject | type[BaseModel]) -> InputSchema:
        """Build it once a tool; an unsound schema is a SchemaError with the first problem."""
        if is_model(schema):
            emitted = model_schema(schema)
            for problem in _shape_problems(emitted):
                raise SchemaError(f"{schema.__name__}: {problem}")
            return cls(emitted, schema)
        for problem in lint(schema):
            raise SchemaError(problem)
        return cls(_closed(plain_json(schema, 2 * NESTING)))

    def validate(self, args: Any) -> JsonObject:
        """New plain args in the order of the schema, strings coerced and defaults filled in; else InvalidInput."""
        try:
            if not isinstance(args, Mapping):
                from forge_cli.schema.json.problems import shown

                raise InvalidInput(f"the input must be an object, got {shown(args)}")
            try:
                coerced = plain_json(coerce(args, self.json_schema))
            except ValueError as error:
                raise InvalidInput(str(error)) from None
            if self.model is None:
                return self._by_schema(coerced)
            return _by_model(self.model, coerced, self.json_schema)
        except InvalidInput:
            raise
        except TooManySteps as error:
            raise InvalidInput(
                f"the input cannot be checked: the schema of the tool is at fault, as {error}"
            ) from None
        except RecursionError as error:
            problem = "the schema of the tool is at fault, as its references never end"
            raise InvalidInput(f"the input cannot be checked: {problem}") from error
        except Exception as error:  # third-party code: the validators of a model
            raise InvalidInput(f"the input cannot be checked ({type(error).__name__})") from error

    def probe(self) -> None:
        """Check an empty input and the defaults; a SchemaError where the schema itself takes too long."""
        try:
            from forge_cli.schema.json.bounded import steps_limited

            with steps_limited(_STEPS):
                self._validator.is_valid({})
                self._find_defaults()
        except TooManySteps as error:
            raise SchemaError(str(error)) from None

    def _by_schema(self, args: JsonObject) -> JsonObject:
        from forge_cli.schema.json.bounded import steps_limited

        with steps_limited(_STEPS + _STEPS_A_VALUE * _count(args)):
            self._add_required(args, self._validator)
            return self._checked(args)

    def _add_required(self, value: Any, judge: Validator) -> None:
        """Add the defaults of required fields that are missing, at any depth, where they are what the field admits."""
        for error in [each for each in judge.iter_errors(value) if each.validator == "required"]:
            holder = cast(JsonObject, error.instance)
            needed = cast(list[str], error.validator_value)
            properties = as_mapping(as_mapping(error.schema).get("properties"))
            for name in needed:
                declared = as_mapping(properties.get(name))
                for stated in () if name in holder else default_in(declared, self.json_schema):
                    default = deepcopy(stated)
                    inner = self._validator.evolve(schema=declared)
                    self._add_required(default, inner)
                    if inner.is_valid(default):
                        holder[name] = default

    def _checked(self, args: JsonObject) -> JsonObject:
        from forge_cli.schema.json.problems import schema_problems

        errors = islice(self._validator.iter_errors(args), 4 * PROBLEMS)
        problems: list[str] = []
        for error in errors:
            problems += schema_problems(error, self.json_schema)
        if problems:
            raise InvalidInput(*problems)
        return self._fill(args)

    def _fill(self, args: JsonObject) -> JsonObject:
        """Valid args with defaults, in the order of the schema."""
        filled = {**deepcopy(self._defaults), **args}
        return {
            name: filled[name]
            for name in (*self.json_schema["properties"], *filled)
            if name in filled
        }

    @cached_property
    def _validator(self) -> Validator:
        from forge_cli.schema.json.validation import validator

        return validator(self.json_schema)

    @cached_property
    def _defaults(self) -> JsonObject:
        return self._find_defaults()

    def _find_defaults(self) -> JsonObject:
        """Return the defaults that fit their own schema: ``null`` for a string is left out, as if it was not stated."""
        named: JsonObject = {}
        for name, declared in self.json_schema["properties"].items():
            for stated in default_in(declared, self.json_schema):
                named[name] = stated
        wrong = {
            next(iter(error.absolute_path), None) for error in self._validator.iter_errors(named)
        }
        return {name: value for name, value in named.items() if name not in wrong}


def lint(schema: object) -> list[str]:
    """Problems that would make a provider reject the tool; an empty list for a sound schema."""
    if not isinstance(schema, dict):
        return [
            f"the schema must be a JSON Schema object or a pydantic model, not {type(schema).__name__}"
        ]
    try:
        plain = plain_json(schema, 2 * NESTING)
    except ValueError as error:
        return [f"the schema cannot be used: {error}"]
    from forge_cli.schema.json.validation import reference_problems

    problems = [*_shape_problems(plain), *reference_problems(plain)]
    from forge_cli.schema.json.validation import metaschema_problem

    if problems or not (problem := metaschema_problem(plain)):
        return problems
    from forge_cli.schema.json.problems import problem_at

    return [
        problem_at(problem.loc, problem.sentence)
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


def typed_args(model: type[BaseModel], args: JsonObject) -> dict[str, Any]:
    """Turn validated plain args into the values that the function takes: a Path, a datetime, a nested model."""
    try:
        return keyword_args(read_strict(model, args))
    except ValidationError as error:
        from forge_cli.schema.json.model_problems import model_problems

        raise InvalidInput(*model_problems(error, args, model_schema(model))) from None


def _by_model(model: type[BaseModel], args: JsonObject, schema: JsonObject) -> JsonObject:
    known = schema["properties"]
    extra = (
        [name for name in args if name not in known]
        if schema["additionalProperties"] is False
        else []
    )
    given = {name: value for name, value in args.items() if name not in extra}
    problems: list[str] = []
    try:
        instance = read_strict(model, given)
        if "$defs" in schema:
            from forge_cli.schema.json.model_problems import dropped_fields

            problems += dropped_fields(instance, given, schema)
    except ValidationError as error:
        from forge_cli.schema.json.model_problems import model_problems

        problems = model_problems(error, given, schema)
    if extra:
        from forge_cli.schema.json.problems import unknown_field

        problems += [unknown_field((name,), known) for name in extra]
    if problems:
        raise InvalidInput(*problems)
    return plain_args(instance, given)


def _count(value: Any) -> int:
    """How many values there are in one."""
    return 1 + sum(map(_count, inner_values(value)))


def _closed(schema: JsonObject) -> JsonObject:
    closing = {} if OPEN & schema.keys() else {"additionalProperties": False}
    return {"properties": {}, **schema, **closing}
