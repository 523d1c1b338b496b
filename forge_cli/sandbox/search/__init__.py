"""Looking for files and for text in them."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.search import files as files
    from forge_cli.sandbox.search import grep as grep

__getattr__ = lazy_modules(__name__)
