"""Fields of a JSON Schema: their admitted values, and strings converted to declared types."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from forge_cli.core.wire import JsonObject

_NAMED = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
_NESTED = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
    }
    | {
        "not",
        "oneOf",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}
_KINDS = frozenset({*_TYPES.values(), "object"})


def subschemas(schema: JsonObject) -> Iterator[JsonObject]:
    """Yield the schema and all schemas inside it, but not defaults that look like one."""
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
    """Return the target of a local ``$ref``; None if it does not exist in this schema."""
    if not ref.startswith("#"):
        return None
    if ref[1:2] not in ("", "/"):
        for schema in subschemas(root):
            if schema.get("$anchor") == ref[1:]:
                return schema
        return None
    node: Any = root
    for step in ref.split("/")[1:]:
        # The order matters: '~01' is an escaped '~1', not a slash.
        step = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict) and step in node:
            node = node[step]
        elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
            node = node[int(step)]
        else:
            return None
    return node


def alternatives(schema: Any, root: JsonObject, seen: set[str] | None = None) -> list[JsonObject]:
    """Return the schemas of which a value must fit one, with references and unions expanded.

    ``seen`` contains the references expanded so far; each is expanded once, so that recursive
    schemas end.
    """
    seen = set() if seen is None else seen
    if not isinstance(schema, dict):
        # The schema False admits nothing; anything else that is no object admits every value.
        if schema is False:
            return []
        return [{}]
    rest = dict(schema)
    if isinstance(ref := rest.pop("$ref", None), str):
        if ref in seen:
            return []
        seen.add(ref)
        return alternatives({**as_mapping(lookup(ref, root)), **rest}, root, seen)
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = rest.get(keyword)
        # An allOf of one schema is how pydantic attaches a default to a reference.
        if isinstance(options, list) and (keyword != "allOf" or len(options) == 1):
            del rest[keyword]
            spread: list[JsonObject] = []
            for option in options:
                if option is not False:
                    spread += alternatives({**rest, **as_mapping(option)}, root, seen)
            return spread
    return [schema]


def default_in(declared: Any, root: JsonObject) -> tuple[Any, ...]:
    """Return the default of a field or of its referenced schema, in a tuple; empty without one."""
    own = as_mapping(declared)
    if "default" in own:
        return (own["default"],)
    if not own.keys() & {"$ref", "allOf"}:
        return ()
    branches = alternatives(own, root)
    if len(branches) == 1 and "default" in branches[0]:
        return (branches[0]["default"],)
    return ()


def as_mapping(value: Any) -> JsonObject:
    """Return a mapping as it is, and an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def choices(branch: JsonObject) -> list[Any] | None:
    """Return the values of an ``enum`` or ``const``; None if the schema does not list values."""
    if "const" in branch:
        return [branch["const"]]
    listed = branch.get("enum")
    return listed if isinstance(listed, list) else None


def json_type(value: Any) -> str:
    """Return the JSON type of a Python value."""
    # bool comes before int in the table, because True is an int in Python.
    return next((name for kind, name in _TYPES.items() if isinstance(value, kind)), "object")


def kinds(branch: JsonObject) -> frozenset[str]:
    """Return the JSON types that one alternative admits."""
    if (listed := choices(branch)) is not None:
        return frozenset(json_type(value) for value in listed)
    declared = branch.get("type", _KINDS)
    named = frozenset({declared} if isinstance(declared, str) else declared)
    # JSON has one type of numbers, so every number admits integers.
    if "number" in named:
        return named | {"integer"}
    return named


def _admits(branch: JsonObject, value: Any) -> bool:
    kind = json_type(value)
    if (listed := choices(branch)) is not None:
        # The types are compared first, because True == 1 in Python.
        return any(json_type(choice) == kind and choice == value for choice in listed)
    return kind in kinds(branch)


def member(branch: JsonObject, step: str | int) -> Any:
    """Return the schema of a property or item; an empty one if nothing is declared."""
    if isinstance(step, int):
        leading = branch.get("prefixItems", [])
        if step < len(leading):
            return leading[step]
        return branch.get("items", {})
    named = as_mapping(branch.get("properties"))
    if step in named or "patternProperties" in branch:
        return named.get(step, {})
    return branch.get("additionalProperties", {})


def coerce(args: Mapping[str, Any], schema: JsonObject) -> JsonObject:
    """Convert strings to their declared types if that is unambiguous and the string does not fit.

    ``"10"`` becomes 10 for an integer; ``"007"``, ``"t"`` and ``""`` are not JSON and remain for
    the validation to refuse. Values other than strings never change.
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
    # For a nullable string, "null" is meant as text.
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
    # Python's json accepts blanks around a value, and NaN, neither of which is meant here.
    exact = text == text.strip() and not isinstance(value, str)
    is_finite = not isinstance(value, float) or math.isfinite(value)
    if exact and is_finite:
        return value
    return text
