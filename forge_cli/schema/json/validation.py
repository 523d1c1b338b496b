"""Validation with the library ``jsonschema``: offline, with one sentence per problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.text import cut
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, lookup, subschemas
from forge_cli.schema.marks import Loc

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

SENTENCE = 200
"""The most characters of a message of the library, which repeats the value."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaProblem(Struct, frozen=True):
    """A problem of a schema and its place; an empty place if the schema as a whole is unusable."""

    sentence: str
    loc: Loc = ()
    json_path: str = ""


def validator(schema: JsonObject) -> Validator:
    """Return a validator for a sound schema; it never fetches anything, and its time is bounded."""
    import jsonschema
    import referencing

    from forge_cli.schema.json.bounded import bounded_class, without_dialects

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    plain: JsonObject = without_dialects(schema)
    bounded = bounded_class(kind)
    # An empty registry, so that no reference is fetched from the network.
    return bounded(plain, registry=referencing.Registry())


def metaschema_problem(schema: JsonObject) -> SchemaProblem | None:
    """Return why a schema is not valid JSON Schema; None if it is valid."""
    import jsonschema

    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        sentence = f"not valid JSON Schema: {in_short(error.message)}"
        return SchemaProblem(sentence, tuple(error.absolute_path), error.json_path)
    except Exception as error:  # third-party code, for example on an invalid pattern
        return SchemaProblem(f"cannot be checked: {in_short(str(error))}")
    return None


def reference_problems(schema: JsonObject) -> Iterator[str]:
    """Yield problems of references that are remote, missing or circular."""
    for each in subschemas(schema):
        for keyword in _REFERENCES:
            ref = each.get(keyword)
            if not isinstance(ref, str):
                continue
            if not ref.startswith("#"):
                remedy = "copy the definition under $defs"
                yield f"{keyword} {ref!r} is remote and never fetched; {remedy}"
            elif keyword == "$ref" and lookup(ref, schema) is None:
                yield f"$ref {ref!r} does not exist in this schema"
            elif keyword == "$ref" and not alternatives(each, schema):
                yield f"$ref {ref!r} is circular"


def best_error(error: ValidationError) -> ValidationError:
    """Return the most specific error, from the alternative that fits best."""
    from jsonschema.exceptions import best_match

    return best_match([error]) or error


def in_short(message: str) -> str:
    """Return a shortened message, with the value at its start and the problem at its end."""
    return cut(message, SENTENCE, "middle")
