"""Reasons why Python code cannot be a tool, for its author."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from forge_cli.core.errors import SchemaError
from forge_cli.core.hookspecs import is_hook
from forge_cli.schema.json.fields import as_mapping
from forge_cli.schema.json.input_schema import OPEN
from forge_cli.schema.json.signature import is_model
from forge_cli.schema.tool import Tool, context_parameter
from forge_cli.schema.toolset import is_toolset

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def reason(function: Any, error: SchemaError) -> str:
    """Return why a function cannot be a tool."""
    if function.__name__ == "<lambda>":
        return "it is a lambda, which has no name and no type hints; define it with def"
    return str(error)


def check_schema(function: Any, schema: Any) -> None:
    """Raise SchemaError for an invalid schema, or one whose args would not fit the function."""
    if not isinstance(schema, dict) and not is_model(schema):
        kind = type(schema).__name__
        raise SchemaError(f"its schema must be a pydantic model or a JSON Schema dict, not {kind}")
    if isinstance(schema, dict):
        fields = as_mapping(schema.get("properties"))
        is_open = bool(OPEN & schema.keys())
    else:
        fields = as_mapping(schema.model_fields)
        is_open = schema.model_config.get("extra") == "allow"
    context = context_parameter(function)
    # The parameters of a decorator's wrapper: it is what forge calls.
    parameters = inspect.signature(function, follow_wrapped=False).parameters
    taken = [each for each in parameters.values() if each.name != context]
    named = {each.name: each for each in taken if each.kind in _BY_NAME}
    if not any(each.kind is each.VAR_KEYWORD for each in taken):
        for field in fields:
            if field not in named:
                known = f"it takes: {', '.join(named) or 'nothing'}"
                raise SchemaError(
                    f"its schema has '{field}', which {function.__name__} does not take; {known}"
                )
    for name, each in named.items():
        if name not in fields and each.default is each.empty and not is_open:
            problem = f"its schema lacks '{name}', which {function.__name__} needs"
            raise SchemaError(f"{problem}; add it, or give it a default")


def offerable_names(module: ModuleType) -> list[str]:
    """Return the names of a module's own functions and toolsets, and of its Tool objects."""
    return sorted(
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and _offerable(thing, module)
    )


def _offerable(thing: Any, module: ModuleType) -> bool:
    if isinstance(thing, Tool):
        return True
    own = getattr(thing, "__module__", None) == module.__name__
    return own and not is_hook(thing) and (inspect.isfunction(thing) or is_toolset(thing))
