"""JSON Schema checks in bounded time: linear regular expressions and a limit of steps."""

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
    """Raise TooManySteps if checks inside apply more than ``most`` keywords."""
    token = _STEPS_LEFT.set([most])
    try:
        yield
    finally:
        _STEPS_LEFT.reset(token)


@lru_cache(maxsize=8)
def bounded_class(kind: type[Validator]) -> type[Validator]:
    """Return a validator class that counts its steps and uses linear regular expressions."""
    import jsonschema

    known: dict[str, Keyword] = {
        **kind.VALIDATORS,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    counted = {name: _counted(check) for name, check in known.items()}
    # Untyped on purpose: the stubs of the library do not know this signature.
    extend: Any = jsonschema.validators.extend
    bounded: type[Validator] = extend(kind, counted)
    return bounded


def _counted(check: Keyword) -> Keyword:
    # A context variable, because the library creates inner validators without our arguments.
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
    """Return a search in linear time; None for lookaround, backreferences or huge repetitions."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    # pydantic has Rust's engine, whose time is linear; Python's can take years on a hostile
    # pattern.
    try:
        engine = SchemaValidator(
            core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True)
        )
    except SchemaError:
        return None
    return engine.isinstance_python


def is_found(pattern: str, text: str) -> bool:
    """Return True if a text contains a pattern.

    Patterns without a linear form come only from an author's own schema.
    """
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
    # The library has its own loop for this keyword, with Python's engine; the sentences are its
    # own.
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
    """Return why a third-party schema cannot be checked in bounded time; None if it can."""
    for part in _objects(schema):
        pattern = part.get("pattern")
        found: list[str] = []
        if isinstance(pattern, str):
            found.append(pattern)
        by_pattern = part.get("patternProperties")
        if isinstance(by_pattern, dict):
            found += by_pattern
        if odd := next((each for each in found if linear_matcher(each) is None), None):
            return (
                f"the pattern {odd!r} uses lookaround, backreferences or large repetitions, "
                "so it cannot be checked in linear time"
            )
        # The library checks this keyword with Python's own engine.
        if found and "unevaluatedProperties" in part:
            return "patterns together with unevaluatedProperties are not supported"
    return None


def _objects(value: Any) -> Iterator[JsonObject]:
    """Yield each object inside a value, since a reference may point to any of them."""
    if isinstance(value, dict):
        yield value
    for inner in inner_values(value):
        yield from _objects(inner)


def without_dialects(value: Any) -> Any:
    """Return a copy of a schema without ``$schema``, which would select an unbounded validator."""
    if isinstance(value, list):
        return [without_dialects(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept: JsonObject = {}
    for name, each in value.items():
        # A property may have this name as well; its value is a schema then.
        if name != "$schema" or not isinstance(each, str):
            kept[name] = without_dialects(each)
    return kept
