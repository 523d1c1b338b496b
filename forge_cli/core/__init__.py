"""The values and protocols that every layer shares; imports nothing else of forge."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.core import bounds as bounds
    from forge_cli.core import config_problems as config_problems
    from forge_cli.core import debugging as debugging
    from forge_cli.core import executors as executors
    from forge_cli.core import forms as forms
    from forge_cli.core import found_paths as found_paths
    from forge_cli.core import json_schema as json_schema
    from forge_cli.core import model_input as model_input
    from forge_cli.core import observers as observers
    from forge_cli.core import own_thread as own_thread
    from forge_cli.core import pictures as pictures
    from forge_cli.core import problems as problems
    from forge_cli.core import reading as reading
    from forge_cli.core import requests as requests
    from forge_cli.core import result_forms as result_forms
    from forge_cli.core import sandbox as sandbox
    from forge_cli.core import signature as signature
    from forge_cli.core import unwritable as unwritable
    from forge_cli.core import wrap as wrap

__getattr__ = lazy_modules(__name__)
