"""The JSON Schema of a section of a file, from its class and the docstrings of the fields."""

from __future__ import annotations

import ast
import inspect
import json
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from forge_cli.core.wire import JsonObject, camel_case, jsonable
from forge_cli.schema.config import Config
from forge_cli.schema.json.problems import expectation
from forge_cli.schema.toolset import Toolset, ToolsetConfig

COMMON = frozenset(ToolsetConfig.model_fields)
"""Keys that every toolset accepts."""


class SectionSchema(GenerateJsonSchema):
    """A generator without titles that uses docstrings as descriptions."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonObject:
        found = super().model_schema(schema)
        cls: type[BaseModel] = schema["cls"]
        texts = _field_texts(cls)
        for name, field in cls.model_fields.items():
            entry = found.get("properties", {}).get(field.alias or name)
            if entry is not None and name in texts:
                entry.setdefault("description", texts[name])
        return _with_twins(found) if issubclass(cls, Config) else found

    def get_title_from_name(self, name: str) -> str:
        return name

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def section_schema(config: type[Config]) -> JsonObject:
    """Return the JSON Schema of a section."""
    return config.model_json_schema(by_alias=True, schema_generator=SectionSchema)


def toolset_schema(toolset: type[Toolset]) -> JsonObject:
    """Return the schema of a toolset's section, which may also be empty, or a list for some."""
    schema = section_schema(toolset.Config)
    definitions = schema.pop("$defs", {})
    choices = [schema]
    if not schema.get("required") and "anyOf" not in schema:
        choices.append({"type": "null"})
    if toolset.repeatable:
        choices.append({"type": "array", "items": schema})
    if len(choices) > 1:
        return {"anyOf": choices, "$defs": definitions}
    return {**schema, "$defs": definitions}


def settings_of(toolset: type[Toolset]) -> list[JsonObject]:
    """Return name, type, default and description of each key that is the toolset's own."""
    schema = section_schema(toolset.Config)
    fields = toolset.Config.model_fields
    own = {
        field.alias or name
        for name, field in fields.items()
        if name not in COMMON or field.is_required()
    }
    ordered = sorted(schema["properties"].items(), key=lambda item: item[0] in COMMON)
    return [_setting(name, entry, schema, fields) for name, entry in ordered if name in own]


def _setting(
    name: str, entry: JsonObject, schema: JsonObject, fields: dict[str, FieldInfo]
) -> JsonObject:
    info = next(field for key, field in fields.items() if (field.alias or key) == name)
    if info.is_required():
        default = {"required": True}
    else:
        default = {"default": jsonable(info.get_default(call_default_factory=True))}
    return {
        "name": name,
        "type": expectation(entry, schema) or "anything",
        **default,
        "description": entry.get("description", ""),
    }


def line_of_setting(setting: JsonObject) -> str:
    """Return ``name (a string, required): description``."""
    if "default" in setting:
        default = f", default {json.dumps(setting['default'], ensure_ascii=False)}"
    else:
        default = ", required"
    meaning = ""
    if setting["description"]:
        meaning = f": {setting['description']}"
    return f"{setting['name']} ({setting['type']}{default}){meaning}"


def _with_twins(found: JsonObject) -> JsonObject:
    """Accept ``maxTurns`` for ``max_turns``, as a pattern, so that editors do not suggest it."""
    twins = {
        name: twin for name in found.get("properties", {}) if (twin := camel_case(name)) != name
    }
    if not twins:
        return found
    patterns = {f"^{twin}$": found["properties"][name] for name, twin in twins.items()}
    required = [name for name in found.get("required", []) if name not in twins]
    either: list[JsonObject] = []
    for name in found.get("required", []):
        if name in twins:
            either.append({"anyOf": [{"required": [name]}, {"required": [twins[name]]}]})
    changed = {key: value for key, value in found.items() if key != "required"}
    changed["patternProperties"] = patterns
    if required:
        changed["required"] = required
    if either:
        changed["allOf"] = either
    return changed


@cache
def _field_texts(cls: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the fields of a class and its bases, if its source is readable."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):  # so that a class overrides its bases
        if issubclass(base, BaseModel) and base is not BaseModel:
            texts |= _own_texts(base)
    return texts


def _own_texts(cls: type[BaseModel]) -> dict[str, str]:
    try:
        # cleandoc dedents a nested class, except for the first line: hence the newline
        (body,) = ast.parse(inspect.cleandoc(f"\n{inspect.getsource(cls)}")).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    texts: dict[str, str] = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, below in pairwise(statements):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                value=ast.Constant(value=str() as text)
            ):
                texts[name] = " ".join(inspect.cleandoc(text).split())
    return texts
