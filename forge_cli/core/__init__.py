"""The values and protocols that every layer shares; imports nothing else of forge."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.core import bounds as bounds
    from forge_cli.core import event_kinds as event_kinds
    from forge_cli.core import executors as executors
    from forge_cli.core import observers as observers
    from forge_cli.core import pictures as pictures
    from forge_cli.core import requests as requests
    from forge_cli.core import result_forms as result_forms
    from forge_cli.core import short_payloads as short_payloads

__getattr__ = lazy_modules(__name__)
