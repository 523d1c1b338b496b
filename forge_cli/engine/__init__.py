"""The gate, the loop and what assembles them."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine import gate as gate
    from forge_cli.engine import hooks as hooks
    from forge_cli.engine import lock as lock
    from forge_cli.engine import organisation as organisation
    from forge_cli.engine import plugins as plugins
    from forge_cli.engine import replay as replay
    from forge_cli.engine import runtime as runtime
    from forge_cli.engine import turns as turns

__getattr__ = lazy_modules(__name__)
