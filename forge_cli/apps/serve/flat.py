"""Conversion of a JSON Schema to the flat forms of the protocol."""

from __future__ import annotations

from typing import Any

from forge_cli.core.errors import ToolError
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, as_mapping, kinds

SCALARS = frozenset({"string", "number", "integer", "boolean"})
"""Types of fields in such a form, besides lists of choices."""


def flat_schema(schema: JsonObject) -> JsonObject:
    """Return the schema with fields side by side and without references.

    Raises a ToolError if a field cannot be part of such a form.
    """
    fields = {
        name: _flat_field(name, declared, schema) for name, declared in _properties(schema).items()
    }
    flat: JsonObject = {"type": "object", "properties": fields}
    required = [name for name in schema.get("required", []) if name in fields]
    if required:
        flat["required"] = required
    return flat


def _properties(schema: JsonObject) -> JsonObject:
    return as_mapping(schema.get("properties"))


def _flat_field(name: str, declared: Any, root: JsonObject) -> JsonObject:
    own = as_mapping(declared)
    if own.get("type") not in SCALARS and own.get("type") != "array":
        # an optional field is a union with null, which forms do not have
        branches = [branch for branch in alternatives(declared, root) if kinds(branch) != {"null"}]
        if len(branches) != 1:
            raise _too_rich(name)
        told = {
            key: own[key] for key in ("title", "description", "default") if own.get(key) is not None
        }
        own = {**branches[0], **told}
    if own.get("type") in SCALARS:
        return {key: value for key, value in own.items() if key != "default" or value is not None}
    items = as_mapping(own.get("items"))
    if own.get("type") == "array" and "$ref" in items:
        items = alternatives(items, root)[0]
        own = {**own, "items": items}
    if own.get("type") != "array" or not {"enum", "anyOf", "oneOf"} & set(items):
        raise _too_rich(name)
    return own


def _too_rich(name: str) -> ToolError:
    takes = "texts, numbers, yes or no, and choices"
    return ToolError(
        f"the field '{name}' cannot be asked of the user of an MCP client, whose forms have {takes}"
    )
