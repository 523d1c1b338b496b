"""The things that a tool may touch."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox import files as files
    from forge_cli.sandbox import isolation as isolation
    from forge_cli.sandbox import names as names
    from forge_cli.sandbox import processes as processes
    from forge_cli.sandbox import secrets as secrets
    from forge_cli.sandbox import trial as trial
    from forge_cli.sandbox import zones as zones

__getattr__ = lazy_modules(__name__)
