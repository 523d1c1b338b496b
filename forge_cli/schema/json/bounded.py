"""JSON Schema in bounded time: patterns in an engine of linear time, and so many steps at most."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from forge_cli.core.errors import TooManySteps
from forge_cli.core.wire import JsonObject, inner_values

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Keyword = Callable[[Any, Any, Any, Any], "Iterator[ValidationError] | None"]

_PATTERNS_KEPT = 512
_STEPS_LEFT: ContextVar[list[int] | None] = ContextVar("steps_left", default=None)


@contextmanager
def steps_limited(most: int) -> Iterator[None]:
    """Raise TooManySteps where a check within applies more keywords of a schema than that."""
    token = _STEPS_LEFT.set([most])
    try:
        yield
    finally:
        _STEPS_LEFT.reset(token)


@lru_cache(maxsize=8)
def bounded_class(kind: type[Validator]) -> type[Validator]:
    """The same validator, whose steps are counted and whose patterns are found in linear time where they can be."""
    import jsonschema

    known: dict[str, Keyword] = {
        **kind.VALIDATORS,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    counted = {name: _counted(check) for name, check in known.items()}
    extend: Any = jsonschema.validators.extend
    bounded: type[Validator] = extend(kind, counted)
    return bounded


def _counted(check: Keyword) -> Keyword:
    def apply(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        left = _STEPS_LEFT.get()
        if left is not None:
            left[0] -= 1
            if left[0] < 0:
                raise TooManySteps
        yield from check(validator, value, instance, schema) or ()

    return apply


@lru_cache(maxsize=_PATTERNS_KEPT)
def linear_matcher(pattern: str) -> Callable[[str], bool] | None:
    """A search for a pattern in linear time; None for one with lookaround, references back, or huge repetitions."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        engine = SchemaValidator(
            core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        )
    except SchemaError:
        return None
    return engine.isinstance_python


def is_found(pattern: str, text: str) -> bool:
    """Return True if a pattern is found in a text; one that is not linear is an author's own."""
    if matcher := linear_matcher(pattern):
        return matcher(text)
    return re.search(pattern, text) is not None


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(instance, str) and not is_found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for name, value in instance.items():
            if is_found(pattern, name):
                yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, inner: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if not isinstance(instance, dict):
        return
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    others = [
        name
        for name in instance
        if name not in named and not any(is_found(each, name) for each in patterns)
    ]
    if isinstance(inner, dict):
        for name in others:
            yield from validator.descend(instance[name], inner, path=name)
    elif not inner and others:
        listed = ", ".join(map(repr, sorted(others, key=str)))
        if patterns:
            verb = "does" if len(others) == 1 else "do"
            expected = ", ".join(map(repr, sorted(patterns)))
            yield ValidationError(f"{listed} {verb} not match any of the regexes: {expected}")
        else:
            verb = "was" if len(others) == 1 else "were"
            yield ValidationError(
                f"Additional properties are not allowed ({listed} {verb} unexpected)"
            )


def unbounded_problem(schema: JsonObject) -> str | None:
    """Why a schema from elsewhere cannot be checked in bounded time; None where it can."""
    for part in _objects(schema):
        pattern = part.get("pattern")
        found = [pattern] if isinstance(pattern, str) else []
        by_pattern = part.get("patternProperties")
        found += list(by_pattern) if isinstance(by_pattern, dict) else []
        if odd := next((each for each in found if linear_matcher(each) is None), None):
            return f"the pattern {odd!r} looks around, refers back or repeats too much to be checked in linear time"
        if found and "unevaluatedProperties" in part:
            return "patterns and unevaluatedProperties together are not taken"
    return None


def _objects(value: Any) -> Iterator[JsonObject]:
    """Every object in a value: a reference may lead to each of them."""
    if isinstance(value, dict):
        yield value
    for inner in inner_values(value):
        yield from _objects(inner)


def without_dialects(value: Any) -> Any:
    """A copy of a schema without ``$schema``, which would have a part of it checked by the library's own validator."""
    if isinstance(value, dict):
        kept = (
            (name, each)
            for name, each in value.items()
            if name != "$schema" or not isinstance(each, str)
        )
        return {name: without_dialects(each) for name, each in kept}
    return [without_dialects(each) for each in value] if isinstance(value, list) else value
