"""Child processes: starting one, reading its output within bounds, and ending its whole tree."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.processes import command as command
    from forge_cli.sandbox.processes import tree as tree

__getattr__ = lazy_modules(__name__)
