"""The network of confined commands: names that rules cover, others by consent, all through a proxy that forge keeps."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.network import rules as rules

__getattr__ = lazy_modules(__name__)
