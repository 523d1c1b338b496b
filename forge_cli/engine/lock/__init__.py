"""The lock of a worker: everything that it consists of, as the team has reviewed it."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.lock import checking as checking
    from forge_cli.engine.lock import compare as compare
    from forge_cli.engine.lock import distributions as distributions
    from forge_cli.engine.lock import gather as gather
    from forge_cli.engine.lock import lockfile as lockfile

__getattr__ = lazy_modules(__name__)
