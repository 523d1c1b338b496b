"""Tools from what people write: functions and their signatures, JSON Schema, path arguments, sections of files."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.schema import bounded as bounded
    from forge_cli.schema import config_problems as config_problems
    from forge_cli.schema import forms as forms
    from forge_cli.schema import found_paths as found_paths
    from forge_cli.schema import json_schema as json_schema
    from forge_cli.schema import own_thread as own_thread
    from forge_cli.schema import problems as problems
    from forge_cli.schema import returned as returned
    from forge_cli.schema import signature as signature
    from forge_cli.schema import unfit as unfit

__getattr__ = lazy_modules(__name__)
