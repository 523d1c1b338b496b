"""Files inside zones: walking to one, judging the access, and making it."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.sandbox.files import caps as caps
    from forge_cli.sandbox.files import consent as consent
    from forge_cli.sandbox.files import held as held
    from forge_cli.sandbox.files import place as place
    from forge_cli.sandbox.files import virtual as virtual

__getattr__ = lazy_modules(__name__)
