"""The list of commands in the help of forge and of its groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SECTIONS = {
    "Everyday": ("run", "chat", "web", "undo", "approvals", "sessions"),
    "Look": ("approve", "replay", "models", "config", "doctor", "docs", "help"),
    "Make": ("worker", "tools", "plugins", "mcp", "test", "keys", "trust"),
    "Run elsewhere": ("batch", "serve"),
}
"""The help of forge lists its commands so; what packages bring comes last."""
FROM_PACKAGES = "From packages"


def write_overview(commands: Mapping[str, Any], formatter: Any, *, by_sections: bool) -> None:
    """Write a line for each command."""
    listed = {"Commands": tuple(commands)}
    if by_sections:
        known = {name for names in SECTIONS.values() for name in names}
        listed = {**SECTIONS, FROM_PACKAGES: tuple(sorted(commands.keys() - known))}
    width = max(map(len, commands), default=0)
    for title, names in listed.items():
        rows = [(f"{name:<{width}}", commands[name].get_short_help_str(200)) for name in names if name in commands]
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
