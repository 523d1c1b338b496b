"""Calls by hand: forms for people, and command-line options as args."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from forge_cli.core.errors import InvalidInput, SchemaError
from forge_cli.core.wire import JsonObject
from forge_cli.schema.json.fields import alternatives, as_mapping, choices, coerce, kinds

FieldType = Literal["text", "number", "boolean", "select", "json"]
YES_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
"""The words that a person may type for a boolean."""


class FormField(Struct, frozen=True):
    """A field of the form with which a person calls a tool.

    ``default`` is valid only if ``has_default`` is True.
    """

    name: str
    type: FieldType
    required: bool = False
    default: Any = None
    has_default: bool = False
    description: str | None = None
    options: tuple[Any, ...] = ()

    def problems(self, error: InvalidInput) -> list[str]:
        """Return the problems of this field."""
        starts = (f"{self.name}:", f"{self.name}.", f"{self.name}[")
        return [problem for problem in error.problems if problem.startswith(starts)]


def derive_fields(schema_or_tool: Any) -> list[FormField]:
    """Return the form of a JSON Schema, a pydantic model, or an object with an ``input_schema``."""
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
    kind = type(source).__name__
    raise SchemaError(
        f"no form can be derived from the type {kind}; pass a schema, a model or a tool"
    )


def _form_field(name: str, declared: Any, root: JsonObject, *, required: bool) -> FormField:
    branches = [branch for branch in alternatives(declared, root) if kinds(branch) != {"null"}]
    merged = as_mapping(declared)
    if len(branches) == 1:
        merged = {**branches[0], **merged}
    options: list[Any] = []
    is_selectable = True
    for branch in branches:
        listed = choices(branch)
        # With an alternative that lists no values, other values are possible as well.
        if listed is None:
            is_selectable = False
        else:
            options += [value for value in listed if value is not None]
    field_type = _field_type(branches)
    if not options or not is_selectable:
        options = []
    else:
        field_type = "select"
    return FormField(
        name=name,
        type=field_type,
        required=required and "default" not in merged,
        default=merged.get("default"),
        has_default="default" in merged,
        description=merged.get("description"),
        options=tuple(options),
    )


def _field_type(branches: list[JsonObject]) -> FieldType:
    admitted = frozenset().union(*map(kinds, branches)) - {"null"}
    if admitted and admitted <= {"integer", "number"}:
        return "number"
    if admitted == {"boolean"}:
        return "boolean"
    if "string" in admitted and not admitted & {"array", "object"}:
        return "text"
    return "json"


OptionValue = str | bool | list[str]


def boolean_options(schema: JsonObject) -> frozenset[str]:
    """Return the names of a tool's boolean arguments."""
    return frozenset(
        name for name, admitted in _admitted(schema).items() if admitted == {"boolean"}
    )


def args_from(options: Mapping[str, OptionValue], schema: JsonObject) -> JsonObject:
    """Convert options to the args of a tool.

    Names may use dashes for underscores, and a single value is enough for a list.
    """
    admitted = _admitted(schema)
    found: JsonObject = {}
    for option, value in options.items():
        name = option.replace("-", "_")
        if option in admitted or name not in admitted:
            name = option
        kinds_of_value = admitted.get(name, frozenset())
        if (
            "array" in kinds_of_value
            and "string" not in kinds_of_value
            and isinstance(value, str)
            and not value.startswith("[")
            # A value that is valid as it is, such as "5" for a number or a list, is no single item.
            and isinstance(coerce({name: value}, schema)[name], str | None)
        ):
            found[name] = [value]
        else:
            found[name] = value
    return found


def _admitted(schema: JsonObject) -> dict[str, frozenset[str]]:
    """Return the JSON types of each argument, without null, which people do not type."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    return {
        name: frozenset().union(*map(kinds, alternatives(declared, schema))) - {"null"}
        for name, declared in properties.items()
    }
