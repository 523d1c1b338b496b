"""The names in a module that could be listed under ``tools:``."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from forge_cli.schema.offering import is_hook
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import is_toolset


def offerable_names(module: ModuleType) -> list[str]:
    """Those of functions and toolsets of its own, and of Tool objects."""
    return sorted(
        name for name, thing in vars(module).items() if not name.startswith("_") and _offerable(thing, module)
    )


def _offerable(thing: Any, module: ModuleType) -> bool:
    if isinstance(thing, Tool):
        return True
    own = getattr(thing, "__module__", None) == module.__name__
    return own and not is_hook(thing) and (inspect.isfunction(thing) or is_toolset(thing))
