"""Plugins: what is installed, and the toolsets, models, renderers and commands that it brings."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.plugins import distributions as distributions
    from forge_cli.engine.plugins import host as host
    from forge_cli.engine.plugins import local as local
    from forge_cli.engine.plugins import own_tools as own_tools

__getattr__ = lazy_modules(__name__)
