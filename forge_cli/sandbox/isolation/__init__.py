"""The confinement of child processes, by what this machine has for it."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.isolation import confinement as confinement
    from forge_cli.sandbox.isolation import isolation as isolation
    from forge_cli.sandbox.isolation import worker as worker

__getattr__ = lazy_modules(__name__)
