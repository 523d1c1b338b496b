"""Packages whose modules load when they are first used: ``package.module.name`` instead of an import on top."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def lazy_modules(package: str) -> Callable[[str], ModuleType]:
    """The ``__getattr__`` of a package: an attribute that is not there yet is the module of that name."""

    def load(name: str) -> ModuleType:
        full = f"{package}.{name}"
        if name.startswith("_") or find_spec(full) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(full)

    return load
