"""Hooks for people: commands and observers that are told of calls and sessions, and may make a verdict stricter."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.hooks import hooks as hooks

__getattr__ = lazy_modules(__name__)
