"""Replaying a recorded session and comparing what happens now with what happened then."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.replay import repeat as repeat

__getattr__ = lazy_modules(__name__)
