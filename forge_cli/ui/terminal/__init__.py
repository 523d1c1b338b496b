"""The terminal: prompts, trace, results and slash commands."""

from typing import TYPE_CHECKING

from forge_cli.core.lazy import lazy_modules

if TYPE_CHECKING:
    from forge_cli.ui.terminal import live as live
    from forge_cli.ui.terminal import markdown as markdown
    from forge_cli.ui.terminal import raw_mode as raw_mode
    from forge_cli.ui.terminal import terminal as terminal
    from forge_cli.ui.terminal import trace as trace

__getattr__ = lazy_modules(__name__)
