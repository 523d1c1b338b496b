"""The record of sessions: the lines of a log, how they are written, and how they are read back."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.record import answers as answers
    from forge_cli.record import changes as changes
    from forge_cli.record import copy as copy
    from forge_cli.record import leftovers as leftovers
    from forge_cli.record import log as log
    from forge_cli.record import open as open
    from forge_cli.record import overview as overview
    from forge_cli.record import resume as resume
    from forge_cli.record import state as state
    from forge_cli.record import target as target

__getattr__ = lazy_modules(__name__)
