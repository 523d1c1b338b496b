"""The commands: thin, one file a group."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.cli import early as early
    from forge_cli.cli import examples as examples
    from forge_cli.cli import record as record
    from forge_cli.cli import talking as talking
    from forge_cli.cli import trusting as trusting

__getattr__ = lazy_modules(__name__)
