"""The options that people type for a tool, as its args."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forge_cli.core.wire import JsonObject
from forge_cli.schema.fields import alternatives, coerce, kinds

OptionValue = str | bool | list[str]


def boolean_options(schema: JsonObject) -> frozenset[str]:
    """The names of a tool's boolean arguments."""
    return frozenset(name for name, admitted in _admitted(schema).items() if admitted == {"boolean"})


def args_from(options: Mapping[str, OptionValue], schema: JsonObject) -> JsonObject:
    """Options as the args of a tool: names may use dashes for underscores, and one value is enough for a list."""
    admitted = _admitted(schema)
    found: JsonObject = {}
    for option, value in options.items():
        name = option if option in admitted else option.replace("-", "_")
        name = name if name in admitted else option
        is_item = "array" in admitted.get(name, ()) and isinstance(value, str) and not value.startswith("[")
        is_item = is_item and "string" not in admitted[name]
        found[name] = [value] if is_item and isinstance(coerce({name: value}, schema)[name], str | None) else value
    return found


def _admitted(schema: JsonObject) -> dict[str, frozenset[str]]:
    """The JSON types that each argument may have; null is left out, since people do not type it."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    return {
        name: frozenset(kind for branch in alternatives(declared, schema) for kind in kinds(branch)) - {"null"}
        for name, declared in properties.items()
    }
