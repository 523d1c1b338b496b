"""What a JSON Schema says of each field: what it admits, strings read as the declared type, the form to fill in."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from forge_cli.core.errors import SchemaError
from forge_cli.core.text import cut
from forge_cli.core.wire import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NAMED = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
_NESTED = frozenset(
    {"additionalItems", "additionalProperties", "allOf", "anyOf", "contains", "contentSchema", "else", "if", "items"}
    | {"not", "oneOf", "prefixItems", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
)
_KINDS = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NOUNS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "an integer",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
_LIMITS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "of at least {} characters",
    "maxLength": "of at most {} characters",
    "pattern": "matching {!r}",
    "minItems": "of at least {} items",
    "maxItems": "of at most {} items",
}
_LISTED = 10


def subschemas(schema: JsonObject) -> Iterator[JsonObject]:
    """The schema and every schema inside it; what merely looks like one (a default, a property's name) is left out."""
    yield schema
    for keyword, value in schema.items():
        inner: list[Any] = []
        if keyword in _NAMED and isinstance(value, dict):
            inner = list(value.values())
        elif keyword in _NESTED:
            inner = value if isinstance(value, list) else [value]
        for item in inner:
            if isinstance(item, dict):
                yield from subschemas(item)


def lookup(ref: str, root: JsonObject) -> Any:
    """What a local ``$ref`` points at, or None where it points at nothing in this schema."""
    if not ref.startswith("#"):
        return None
    if ref[1:2] not in ("", "/"):
        return next((schema for schema in subschemas(root) if schema.get("$anchor") == ref[1:]), None)
    node: Any = root
    for step in ref.split("/")[1:]:
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


def alternatives(schema: Any, root: JsonObject, seen: set[str] | None = None) -> list[JsonObject]:
    """The schemas of which a value has to fit one: references followed, ``anyOf`` and ``oneOf`` spread out.

    ``seen`` holds the references followed so far: each is spread out once, so that schemas in circles come to an end.
    """
    seen = set() if seen is None else seen
    if not isinstance(schema, dict):
        return [] if schema is False else [{}]
    rest = dict(schema)
    if isinstance(ref := rest.pop("$ref", None), str):
        if ref in seen:
            return []
        seen.add(ref)
        return alternatives({**_mapping(lookup(ref, root)), **rest}, root, seen)
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = rest.get(keyword)
        if isinstance(options, list) and (keyword != "allOf" or len(options) == 1):
            del rest[keyword]
            spread = [{**rest, **_mapping(option)} for option in options if option is not False]
            return [branch for option in spread for branch in alternatives(option, root, seen)]
    return [schema]


def _mapping(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def choices(branch: JsonObject) -> list[Any] | None:
    """The values of an ``enum`` or a ``const``; None where the schema does not list its values."""
    if "const" in branch:
        return [branch["const"]]
    listed = branch.get("enum")
    return listed if isinstance(listed, list) else None


def json_type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def kinds(branch: JsonObject) -> frozenset[str]:
    """The JSON types that one alternative admits."""
    if (listed := choices(branch)) is not None:
        return frozenset(json_type(value) for value in listed)
    declared = branch.get("type", _KINDS)
    named = frozenset({declared} if isinstance(declared, str) else declared)
    return named | {"integer"} if "number" in named else named


def _admits(branch: JsonObject, value: Any) -> bool:
    kind = json_type(value)
    if (listed := choices(branch)) is not None:
        return any(json_type(choice) == kind and choice == value for choice in listed)
    return kind in kinds(branch)


def member(branch: JsonObject, step: str | int) -> Any:
    """The schema of a property or of an item; an empty one where nothing is said about it."""
    if isinstance(step, int):
        leading = branch.get("prefixItems", [])
        return leading[step] if step < len(leading) else branch.get("items", {})
    named = _mapping(branch.get("properties"))
    if step in named or "patternProperties" in branch:
        return named.get(step, {})
    return branch.get("additionalProperties", {})


def coerce(args: Mapping[str, Any], schema: JsonObject) -> JsonObject:
    """The args with strings read as their declared type, where that is unambiguous and a string would not fit.

    ``"10"`` is 10 for an integer; ``"007"``, ``"t"`` and ``""`` are not JSON and stay as they are, for the validation
    to refuse. What is not a string is never changed.
    """
    coerced: JsonObject = _coerced(dict(args), schema, schema)
    return coerced


def _coerced(value: Any, schema: Any, root: JsonObject) -> Any:
    match value:
        case str():
            return _from_text(value, schema, root)
        case dict():
            holder = _only_holder("object", schema, root)
            return {key: _coerced(item, member(holder, key), root) for key, item in value.items()}
        case list():
            holder = _only_holder("array", schema, root)
            return [_coerced(item, member(holder, index), root) for index, item in enumerate(value)]
        case _:
            return value


def _only_holder(kind: str, schema: Any, root: JsonObject) -> JsonObject:
    holders = [branch for branch in alternatives(schema, root) if kind in kinds(branch)]
    return holders[0] if len(holders) == 1 else {}


def _from_text(text: str, schema: Any, root: JsonObject) -> Any:
    branches = alternatives(schema, root)
    if any(_admits(branch, text) for branch in branches):
        return text
    value = _literal(text)
    if value is None and any("string" in kinds(branch) for branch in branches):
        return text
    if any(_admits(branch, value) for branch in branches):
        return _coerced(value, schema, root)
    return text


def _literal(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict | list):
        return value
    exact = text == text.strip() and not isinstance(value, str)
    return value if exact and not (isinstance(value, float) and not math.isfinite(value)) else text


def expectation(schema: Any, root: JsonObject) -> str:
    """What a value has to be, in words: ``an integer >= 0 or null``; empty where the schema does not say."""
    described = [_describe(branch) for branch in alternatives(schema, root)]
    return " or ".join(dict.fromkeys(described)) if all(described) else ""


def _describe(branch: JsonObject) -> str:
    if (listed := choices(branch)) is not None:
        more = ", ..." if len(listed) > _LISTED else ""
        return ("one of " if len(listed) > 1 else "") + ", ".join(map(shown, listed[:_LISTED])) + more
    declared = branch.get("type", [])
    nouns = [_NOUNS.get(name, name) for name in ([declared] if isinstance(declared, str) else declared)]
    limits = [text.format(branch[keyword]) for keyword, text in _LIMITS.items() if keyword in branch]
    if not nouns or (limits and nouns == ["null"]):
        return " or ".join(nouns)
    named = f" ({branch['format']})" if "format" in branch and "string" in declared else ""
    return " or ".join(nouns) + named + (f" {' and '.join(limits)}" if limits else "")


def shown(value: Any) -> str:
    """A value as an error sentence names it: short, and with control characters escaped."""
    match value:
        case None | bool():
            return json.dumps(value)
        case int() if value.bit_length() > 1000:
            return "a very large number"
        case str() | int() | float():
            return cut(repr(value), 60, "end")
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return f"a {type(value).__name__}"


FieldType = Literal["text", "number", "boolean", "select", "json"]


@dataclass(frozen=True)
class FormField:
    """One field of the form that a person fills in to call a tool by hand; ``default`` counts with ``has_default``."""

    name: str
    type: FieldType
    required: bool = False
    default: Any = None
    has_default: bool = False
    description: str | None = None
    options: tuple[Any, ...] = ()


def derive_fields(schema_or_tool: Any) -> list[FormField]:
    """The form of a JSON Schema, of a pydantic model, or of anything whose ``input_schema`` is one of these."""
    schema = _schema_of(schema_or_tool)
    required = schema.get("required", [])
    return [
        _form_field(name, declared, schema, required=name in required)
        for name, declared in _mapping(schema.get("properties")).items()
    ]


def _schema_of(source: Any) -> JsonObject:
    if isinstance(source, type):
        from forge_cli.core.signature import is_model, model_schema

        if is_model(source):
            return model_schema(source)
    if isinstance(source, dict):
        return source
    for attribute in ("json_schema", "input_schema"):
        if (inner := getattr(source, attribute, None)) is not None:
            return _schema_of(inner)
    raise SchemaError(f"no form can be derived from a {type(source).__name__}; give a schema, a model or a tool")


def _form_field(name: str, declared: Any, root: JsonObject, *, required: bool) -> FormField:
    branches = [branch for branch in alternatives(declared, root) if kinds(branch) != {"null"}]
    own = _mapping(declared)
    merged = {**(branches[0] if len(branches) == 1 else {}), **own}
    listed = [choices(branch) for branch in branches]
    options = tuple(value for values in listed for value in values or () if value is not None)
    selectable = bool(options) and None not in listed
    return FormField(
        name=name,
        type="select" if selectable else _field_type(branches),
        required=required and "default" not in merged,
        default=merged.get("default"),
        has_default="default" in merged,
        description=merged.get("description"),
        options=options if selectable else (),
    )


def _field_type(branches: list[JsonObject]) -> FieldType:
    admitted = frozenset().union(*map(kinds, branches)) - {"null"}
    if admitted and admitted <= {"integer", "number"}:
        return "number"
    if admitted == {"boolean"}:
        return "boolean"
    return "text" if "string" in admitted and not admitted & {"array", "object"} else "json"
