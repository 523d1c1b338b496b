"""The gate that every call passes: judging it, getting consent for it, executing it."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.gate import answer as answer
    from forge_cli.engine.gate import consent as consent
    from forge_cli.engine.gate import contexts as contexts
    from forge_cli.engine.gate import debugging as debugging
    from forge_cli.engine.gate import grants as grants
    from forge_cli.engine.gate import judged_as as judged_as
    from forge_cli.engine.gate import kept as kept
    from forge_cli.engine.gate import network as network
    from forge_cli.engine.gate import resumed as resumed
    from forge_cli.engine.gate import steps as steps

__getattr__ = lazy_modules(__name__)
