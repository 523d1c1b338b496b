"""The toolset ``shell``: command lines, judged one simple command at a time."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.toolsets.shell import covered as covered
    from forge_cli.toolsets.shell import edits as edits
    from forge_cli.toolsets.shell import trying as trying

__getattr__ = lazy_modules(__name__)
