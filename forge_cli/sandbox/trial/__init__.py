"""Commands on copies: overlays over the zones, what a command did there, and how that gets into the zones or not."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.trial import apply as apply
    from forge_cli.sandbox.trial import copies as copies
    from forge_cli.sandbox.trial import deletions as deletions
    from forge_cli.sandbox.trial import left as left
    from forge_cli.sandbox.trial import masked as masked
    from forge_cli.sandbox.trial import reading as reading
    from forge_cli.sandbox.trial import seen as seen
    from forge_cli.sandbox.trial import trials as trials
    from forge_cli.sandbox.trial import view as view

__getattr__ = lazy_modules(__name__)
