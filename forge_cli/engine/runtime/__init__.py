"""A worker at work: assembling it, running it, and the workers that it starts."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.engine.runtime import background as background
    from forge_cli.engine.runtime import children as children
    from forge_cli.engine.runtime import commands as commands
    from forge_cli.engine.runtime import conversation as conversation
    from forge_cli.engine.runtime import other_zones as other_zones
    from forge_cli.engine.runtime import reopening as reopening
    from forge_cli.engine.runtime import requests as requests
    from forge_cli.engine.runtime import runtime as runtime
    from forge_cli.engine.runtime import runtime_spec as runtime_spec
    from forge_cli.engine.runtime import without_model as without_model

__getattr__ = lazy_modules(__name__)
