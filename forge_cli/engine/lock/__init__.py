"""The lock of a worker: everything that it consists of, as the team has reviewed it."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.lock import checking as checking

__getattr__ = lazy_modules(__name__)
