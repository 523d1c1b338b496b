"""The gate that every call passes: judging it, getting consent for it, executing it."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.gate import find_tools as find_tools
    from forge_cli.engine.gate import network as network

__getattr__ = lazy_modules(__name__)
