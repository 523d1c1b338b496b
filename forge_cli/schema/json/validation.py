"""JSON Schema as the library ``jsonschema`` checks it: offline, and with each problem as one sentence."""

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
"""Characters of a sentence of the library, which repeats the value that it is about."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaProblem(Struct, frozen=True):
    """A problem of a schema, and its place there; no place where the whole cannot be checked."""

    sentence: str
    loc: Loc = ()
    json_path: str = ""


def validator(schema: JsonObject) -> Validator:
    """The validator that checks values against a sound schema; it never fetches anything, and its time is bounded."""
    import jsonschema
    import referencing

    from forge_cli.schema.json.bounded import bounded_class, without_dialects

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    plain: JsonObject = without_dialects(schema)
    bounded = bounded_class(kind)
    return bounded(plain, registry=referencing.Registry())


def metaschema_problem(schema: JsonObject) -> SchemaProblem | None:
    """Why this is not valid JSON Schema; None where it is."""
    import jsonschema

    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except jsonschema.SchemaError as error:
        sentence = f"not valid JSON Schema: {in_short(error.message)}"
        return SchemaProblem(sentence, tuple(error.absolute_path), error.json_path)
    except (
        Exception
    ) as error:  # third-party code: a pattern that no regular expression engine takes
        return SchemaProblem(f"cannot be checked: {in_short(str(error))}")
    return None


def reference_problems(schema: JsonObject) -> Iterator[str]:
    """References that lead outside, to nothing, or back to themselves."""
    for each in subschemas(schema):
        for keyword in _REFERENCES:
            ref = each.get(keyword)
            if not isinstance(ref, str):
                continue
            if not ref.startswith("#"):
                yield f"{keyword} {ref!r} is remote and never fetched; copy the definition under $defs"
            elif keyword == "$ref" and lookup(ref, schema) is None:
                yield f"$ref {ref!r} points at nothing in this schema"
            elif keyword == "$ref" and not alternatives(each, schema):
                yield f"$ref {ref!r} only leads back to itself"


def best_error(error: ValidationError) -> ValidationError:
    """The error itself; where alternatives were given, that of the alternative which came nearest."""
    from jsonschema.exceptions import best_match

    return best_match([error]) or error


def in_short(message: str) -> str:
    """A sentence of the library: it starts with the value and ends with what is wrong with it, so both ends stay."""
    return cut(message, SENTENCE, "middle")
