"""The values and protocols that every layer shares; imports nothing else of forge."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.core import executors as executors
    from forge_cli.core import json_schema as json_schema
    from forge_cli.core import model_input as model_input
    from forge_cli.core import signature as signature
    from forge_cli.core import wrap as wrap

__getattr__ = lazy_modules(__name__)
