"""``forge worker``: worker files, looked at without a model."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.cli.worker import trusted as trusted
    from forge_cli.cli.worker import unknown as unknown

__getattr__ = lazy_modules(__name__)
