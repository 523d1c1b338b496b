"""Zones: the folders that a worker may use, as declared and as they lie on disk."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.zones import config as config
    from forge_cli.sandbox.zones import declared as declared

__getattr__ = lazy_modules(__name__)
