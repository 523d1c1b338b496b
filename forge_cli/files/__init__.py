"""The files people write, read safely and with marks."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.files import attachment as attachment
    from forge_cli.files import guidance as guidance
    from forge_cli.files import keys as keys
    from forge_cli.files import mcp as mcp
    from forge_cli.files import organisation as organisation
    from forge_cli.files import parsing as parsing
    from forge_cli.files import project as project
    from forge_cli.files import replace as replace
    from forge_cli.files import started as started
    from forge_cli.files import trust as trust

__getattr__ = lazy_modules(__name__)
