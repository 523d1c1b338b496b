"""The faces of forge: they know events, never the engine."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.ui import server as server
    from forge_cli.ui import terminal as terminal
    from forge_cli.ui import wrap as wrap

__getattr__ = lazy_modules(__name__)
