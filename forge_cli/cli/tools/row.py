"""A row of ``forge tools list``, as it is shown and cached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forge_cli.core.errors import ForgeError
    from forge_cli.core.source import Source
    from forge_cli.engine.plugins.scan import Plugin


@dataclass(frozen=True)
class Row:
    """One line of the list: a tool, or something that is broken and why."""

    name: str
    toolset: str
    source: str
    origin: str
    mode: str = ""
    approval: str = ""
    description: str = ""
    version: str | None = None
    label: str | None = None
    category: str | None = None
    error: str | None = None
    tokens: int | None = None
    """What its definition takes of the window, as a guess."""
    settings: list[dict[str, Any]] | None = None
    """Of a toolset that has no tools as it is: what its section in a worker file may say."""
    deferred: bool | None = None
    """True where the model is told its name only, until it asks for more."""

    @classmethod
    def broken(cls, plugin: Plugin, error: ForgeError) -> Row:
        return cls(plugin.name, plugin.name, plugin.source.kind, str(plugin), error=error.message)

    @classmethod
    def left_out(cls, toolset: str, name: str, source: Source, problem: str) -> Row:
        return cls(name, toolset, source.kind, source.origin, error=problem)

    def wire(self, *, tokens: bool = False) -> dict[str, Any]:
        """What is known of it; what most tools do not have is left out where it is missing."""
        left_out = () if tokens else ("tokens", "deferred")
        return {key: value for key, value in vars(self).items() if value is not None and key not in left_out}
