"""The fields of a JSON Schema: what each of them admits, and strings read as the declared type."""

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
    """The target of a local ``$ref``, or None where it points at nothing in this schema."""
    if not ref.startswith("#"):
        return None
    if ref[1:2] not in ("", "/"):
        return next(
            (schema for schema in subschemas(root) if schema.get("$anchor") == ref[1:]), None
        )
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

    ``seen`` holds the references followed so far: each is spread out once, so that recursive schemas end.
    """
    seen = set() if seen is None else seen
    if not isinstance(schema, dict):
        return [] if schema is False else [{}]
    rest = dict(schema)
    if isinstance(ref := rest.pop("$ref", None), str):
        if ref in seen:
            return []
        seen.add(ref)
        return alternatives({**as_mapping(lookup(ref, root)), **rest}, root, seen)
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = rest.get(keyword)
        if isinstance(options, list) and (keyword != "allOf" or len(options) == 1):
            del rest[keyword]
            spread: list[JsonObject] = []
            for option in options:
                if option is not False:
                    spread += alternatives({**rest, **as_mapping(option)}, root, seen)
            return spread
    return [schema]


def default_in(declared: Any, root: JsonObject) -> tuple[Any, ...]:
    """The default of a field, of its own schema or of the one that it refers to; nothing where neither has one."""
    own = as_mapping(declared)
    if "default" in own:
        return (own["default"],)
    if not own.keys() & {"$ref", "allOf"}:
        return ()
    branches = alternatives(own, root)
    return (branches[0]["default"],) if len(branches) == 1 and "default" in branches[0] else ()


def as_mapping(value: Any) -> JsonObject:
    """The value, or nothing where it is not a mapping."""
    return value if isinstance(value, dict) else {}


def choices(branch: JsonObject) -> list[Any] | None:
    """The values of an ``enum`` or a ``const``; None where the schema does not list its values."""
    if "const" in branch:
        return [branch["const"]]
    listed = branch.get("enum")
    return listed if isinstance(listed, list) else None


def json_type(value: Any) -> str:
    return next((name for kind, name in _TYPES.items() if isinstance(value, kind)), "object")


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
    named = as_mapping(branch.get("properties"))
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
