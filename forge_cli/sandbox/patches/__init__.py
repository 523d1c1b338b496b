"""Patches: text that a model wrote, read, planned on every file it names, and carried out as a whole or not at all.

``parse`` reads it, ``model`` says what it wants of which path, ``plan`` says what every file would become, and makes
it so. ``replace`` is for a text in one file.
"""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.patches import model as model
    from forge_cli.sandbox.patches import parse as parse
    from forge_cli.sandbox.patches import plan as plan
    from forge_cli.sandbox.patches import replace as replace

__getattr__ = lazy_modules(__name__)
