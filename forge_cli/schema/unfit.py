"""Python code that could be a tool, and the reasons why other code cannot be one, in words for its author."""

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
    """The reason why a function cannot be a tool."""
    if function.__name__ == "<lambda>":
        return "it is a lambda, which has no name and no type hints; define it with def"
    return str(error)


def check_schema(function: Any, schema: Any) -> None:
    """Refuse a schema beside a function that is none, or with which no call could fit the function."""
    if not isinstance(schema, dict) and not is_model(schema):
        raise SchemaError(
            f"its schema must be a pydantic model or a JSON Schema dict, not {type(schema).__name__}"
        )
    fields = as_mapping(
        schema.get("properties") if isinstance(schema, dict) else schema.model_fields
    )
    context = context_parameter(function)
    parameters = inspect.signature(
        function, follow_wrapped=False
    ).parameters  # those of a wrapper itself
    taken = [each for each in parameters.values() if each.name != context]
    named = {each.name: each for each in taken if each.kind in _BY_NAME}
    known = f"it takes: {', '.join(named) or 'nothing'}"
    for field in fields if all(each.kind is not each.VAR_KEYWORD for each in taken) else ():
        if field not in named:
            raise SchemaError(
                f"its schema has '{field}', which {function.__name__} does not take; {known}"
            )
    is_open = (
        OPEN & schema.keys()
        if isinstance(schema, dict)
        else schema.model_config.get("extra") == "allow"
    )
    for name, each in named.items():
        if name not in fields and each.default is each.empty and not is_open:
            raise SchemaError(
                f"its schema lacks '{name}', which {function.__name__} needs; add it, or give it a default"
            )


def offerable_names(module: ModuleType) -> list[str]:
    """Those of functions and toolsets of its own, and of Tool objects."""
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
