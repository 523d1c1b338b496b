"""The turns of a model: the loop, its history and window, its limits and prices."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.turns import deferred as deferred
    from forge_cli.engine.turns import environment as environment
    from forge_cli.engine.turns import output as output
    from forge_cli.engine.turns import prices as prices
    from forge_cli.engine.turns import room as room

__getattr__ = lazy_modules(__name__)
