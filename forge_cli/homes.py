"""The public module of each name, for hints about wrong imports."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from forge_cli.core.text import nearest

PUBLIC_MODULES = (
    "forge_cli",
    "forge_cli.errors",
    "forge_cli.events",
    "forge_cli.results",
    "forge_cli.hooks",
    "forge_cli.executors",
    "forge_cli.embedding",
    "forge_cli.export",
    "forge_cli.terminal",
    "forge_cli.testing",
)
"""The modules of the public API; each name is in one of them."""


def missing(module: str, name: str) -> ImportError | AttributeError:
    """Return the error for a name that a public module does not have.

    Only an ImportError keeps the hint: for an AttributeError, ``from module import name`` shows its
    own message. So ``hasattr`` raises for a name that is public elsewhere, or nearly so, and
    returns False for all others.
    """
    plain = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_") or _is_module(f"{module}.{name}"):
        return AttributeError(plain)
    homes = public_homes()
    if name in homes:
        hint = f"import it from {homes[name]}"
    elif near := nearest(name, homes):
        hint = f"did you mean {near!r} of {homes[near]}?"
    else:
        return AttributeError(plain)
    return ImportError(f"cannot import name {name!r} from {module!r}; {hint}", name=module)


def public_homes() -> dict[str, str]:
    """Return the module of each public name."""
    homes: dict[str, str] = {}
    for module in PUBLIC_MODULES:
        homes.update(dict.fromkeys(import_module(module).__all__, module))
    return homes


def _is_module(name: str) -> bool:
    parent = import_module(name.rpartition(".")[0])
    return hasattr(parent, "__path__") and find_spec(name) is not None
