"""Looking is not running: third-party code that must be loaded to be looked at is loaded in a confined child."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.inspection import left_out as left_out
    from forge_cli.inspection import loading_child as loading_child
    from forge_cli.inspection import trying as trying

__getattr__ = lazy_modules(__name__)
