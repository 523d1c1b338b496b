"""The input of a tool: its schema for the model, and the validation of args."""

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
_MAX_STEPS = 20_000
_MAX_STEPS_PER_VALUE = 100
"""The most keywords that are applied to an input, plus those for each value in it."""
OPEN = frozenset(
    {*_COMBINED, "$ref", "additionalProperties", "patternProperties", "unevaluatedProperties"}
)


class InputSchema:
    """The JSON Schema that the model sees, and the validation of args against the same source."""

    def __init__(self, json_schema: JsonObject, model: type[BaseModel] | None = None) -> None:
        self.json_schema = json_schema
        self.model = model

    @classmethod
    def of(cls, schema: JsonObject | type[BaseModel]) -> InputSchema:
        """Create the input of a tool; raise SchemaError with the first problem of the schema."""
        if is_model(schema):
            emitted = model_schema(schema)
            for problem in _shape_problems(emitted):
                raise SchemaError(f"{schema.__name__}: {problem}")
            return cls(emitted, schema)
        for problem in lint(schema):
            raise SchemaError(problem)
        return cls(_closed(plain_json(schema, 2 * NESTING)))

    def validate(self, args: Any) -> JsonObject:
        """Return plain args with coerced strings and defaults, in the order of the schema.

        Raise InvalidInput if they do not fit, whatever goes wrong in the validation.
        """
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
                f"the input cannot be checked: in the schema of the tool, {error}"
            ) from None
        except RecursionError as error:
            raise InvalidInput(
                "the input cannot be checked: references in the schema of the tool never end"
            ) from error
        except Exception as error:  # third-party code: the validators of a model
            raise InvalidInput(f"the input cannot be checked ({type(error).__name__})") from error

    def probe(self) -> None:
        """Raise SchemaError if even a check of an empty input and the defaults takes too long."""
        try:
            from forge_cli.schema.json.bounded import steps_limited

            with steps_limited(_MAX_STEPS):
                self._validator.is_valid({})
                self._find_defaults()
        except TooManySteps as error:
            raise SchemaError(str(error)) from None

    def _by_schema(self, args: JsonObject) -> JsonObject:
        from forge_cli.schema.json.bounded import steps_limited

        with steps_limited(_MAX_STEPS + _MAX_STEPS_PER_VALUE * _count(args)):
            self._add_required(args, self._validator)
            return self._checked(args)

    def _add_required(self, value: Any, judge: Validator) -> None:
        """Add valid defaults of missing required fields at any depth."""
        # A list, because the defaults change the value while the validator would still walk it.
        for error in [each for each in judge.iter_errors(value) if each.validator == "required"]:
            holder = cast(JsonObject, error.instance)
            needed = cast(list[str], error.validator_value)
            properties = as_mapping(as_mapping(error.schema).get("properties"))
            for name in needed:
                if name in holder:
                    continue
                declared = as_mapping(properties.get(name))
                for stated in default_in(declared, self.json_schema):
                    default = deepcopy(stated)
                    inner = self._validator.evolve(schema=declared)
                    # The default itself may lack required fields that have defaults.
                    self._add_required(default, inner)
                    if inner.is_valid(default):
                        holder[name] = default

    def _checked(self, args: JsonObject) -> JsonObject:
        from forge_cli.schema.json.problems import schema_problems

        # One wrong field can cause several errors; a message reports a few fields at most.
        errors = islice(self._validator.iter_errors(args), 4 * PROBLEMS)
        problems: list[str] = []
        for error in errors:
            problems += schema_problems(error, self.json_schema)
        if problems:
            raise InvalidInput(*problems)
        return self._fill(args)

    def _fill(self, args: JsonObject) -> JsonObject:
        """Return valid args with defaults, in the order of the schema."""
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
        """Return the defaults that fit their own schema, unlike ``null`` for a string."""
        named: JsonObject = {}
        for name, declared in self.json_schema["properties"].items():
            for stated in default_in(declared, self.json_schema):
                named[name] = stated
        wrong = {
            next(iter(error.absolute_path), None) for error in self._validator.iter_errors(named)
        }
        return {name: value for name, value in named.items() if name not in wrong}


def lint(schema: object) -> list[str]:
    """Return problems for which a provider would reject the tool; empty for a sound schema."""
    if not isinstance(schema, dict):
        kind = type(schema).__name__
        return [f"the schema must be a JSON Schema object or a pydantic model, not {kind}"]
    try:
        plain = plain_json(schema, 2 * NESTING)
    except ValueError as error:
        return [f"the schema cannot be used: {error}"]
    from forge_cli.schema.json.problems import problem_at
    from forge_cli.schema.json.validation import metaschema_problem, reference_problems

    problems = [*_shape_problems(plain), *reference_problems(plain)]
    if problems or not (problem := metaschema_problem(plain)):
        return problems
    if not problem.json_path:
        return [f"the schema {problem.sentence}"]
    return [problem_at(problem.loc, problem.sentence)]


def _shape_problems(schema: JsonObject) -> Iterator[str]:
    if schema.get("type") != "object":
        yield 'the top level must have "type": "object"'
    for keyword in _COMBINED:
        if keyword in schema:
            remedy = 'describe the fields under "properties"'
            yield f'"{keyword}" at the top level is refused by providers; {remedy}'
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        yield '"properties" must be a mapping from names to schemas'
        return
    for name in properties:
        if not _PROPERTY_NAME.fullmatch(name):
            yield f"property name {name!r} must match ^{_PROPERTY_NAME.pattern}$"
    required = schema.get("required", [])
    if not isinstance(required, list):
        return
    for name in required:
        if not isinstance(name, str) or name not in properties:
            yield f'"required" names {name!r}, which is not under "properties"'


def typed_args(model: type[BaseModel], args: JsonObject) -> dict[str, Any]:
    """Convert validated plain args to the types of the function, such as Path or a nested model."""
    try:
        return keyword_args(read_strict(model, args))
    except ValidationError as error:
        from forge_cli.schema.json.model_problems import model_problems

        raise InvalidInput(*model_problems(error, args, model_schema(model))) from None


def _by_model(model: type[BaseModel], args: JsonObject, schema: JsonObject) -> JsonObject:
    known = schema["properties"]
    extra: list[str] = []
    if schema["additionalProperties"] is False:
        extra = [name for name in args if name not in known]
    given = {name: value for name, value in args.items() if name not in extra}
    problems: list[str] = []
    try:
        instance = read_strict(model, given)
        # Only models inside the model drop unknown fields silently; they are described in $defs.
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
    """Return the number of values inside a value, including itself."""
    return 1 + sum(map(_count, inner_values(value)))


def _closed(schema: JsonObject) -> JsonObject:
    # A model that invents a field should hear about it, unless the schema allows other fields.
    if OPEN & schema.keys():
        return {"properties": {}, **schema}
    return {"properties": {}, **schema, "additionalProperties": False}
