"""Calls by hand: the form that a person fills in, a field for each that a schema declares, and options as args."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal

from msgspec import Struct

from forge_cli.core.errors import InvalidInput, SchemaError
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, as_mapping, choices, coerce, kinds

FieldType = Literal["text", "number", "boolean", "select", "json"]
YES_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
"""Words that a person may type for a boolean."""


class FormField(Struct, frozen=True):
    """One field of the form that a person fills in to call a tool by hand; ``default`` counts with ``has_default``."""

    name: str
    type: FieldType
    required: bool = False
    default: Any = None
    has_default: bool = False
    description: str | None = None
    options: tuple[Any, ...] = ()

    def problems(self, error: InvalidInput) -> list[str]:
        """Problems of the args that this field has."""
        return [
            each
            for each in error.problems
            if each.startswith(tuple(f"{self.name}{mark}" for mark in ":.["))
        ]


def derive_fields(schema_or_tool: Any) -> list[FormField]:
    """The form of a JSON Schema, of a pydantic model, or of anything whose ``input_schema`` is one of these."""
    schema = _schema_of(schema_or_tool)
    required = schema.get("required", [])
    return [
        _form_field(name, declared, schema, required=name in required)
        for name, declared in as_mapping(schema.get("properties")).items()
    ]


def _schema_of(source: Any) -> JsonObject:
    from forge_cli.schema.json.signature import is_model, model_schema

    if is_model(source):
        return model_schema(source)
    if isinstance(source, dict):
        return source
    for attribute in ("json_schema", "input_schema"):
        if (inner := getattr(source, attribute, None)) is not None:
            return _schema_of(inner)
    raise SchemaError(
        f"no form can be derived from the type {type(source).__name__}; give a schema, a model or a tool"
    )


def _form_field(name: str, declared: Any, root: JsonObject, *, required: bool) -> FormField:
    branches = [branch for branch in alternatives(declared, root) if kinds(branch) != {"null"}]
    own = as_mapping(declared)
    merged = {**(branches[0] if len(branches) == 1 else {}), **own}
    listed = [choices(branch) for branch in branches]
    options = tuple(
        value for value in chain.from_iterable(filter(None, listed)) if value is not None
    )
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


OptionValue = str | bool | list[str]


def boolean_options(schema: JsonObject) -> frozenset[str]:
    """The names of a tool's boolean arguments."""
    return frozenset(
        name for name, admitted in _admitted(schema).items() if admitted == {"boolean"}
    )


def args_from(options: Mapping[str, OptionValue], schema: JsonObject) -> JsonObject:
    """Options as the args of a tool: names may use dashes for underscores, and one value is enough for a list."""
    admitted = _admitted(schema)
    found: JsonObject = {}
    for option, value in options.items():
        name = option if option in admitted else option.replace("-", "_")
        name = name if name in admitted else option
        is_item = (
            "array" in admitted.get(name, ())
            and isinstance(value, str)
            and not value.startswith("[")
        )
        is_item = is_item and "string" not in admitted[name]
        found[name] = (
            [value]
            if is_item and isinstance(coerce({name: value}, schema)[name], str | None)
            else value
        )
    return found


def _admitted(schema: JsonObject) -> dict[str, frozenset[str]]:
    """The JSON types that each argument may have; null is left out, since people do not type it."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    return {
        name: frozenset().union(*map(kinds, alternatives(declared, schema))) - {"null"}
        for name, declared in properties.items()
    }
