"""``forge worker``: worker files, looked at without a model."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.cli.worker import trusted as trusted

__getattr__ = lazy_modules(__name__)
