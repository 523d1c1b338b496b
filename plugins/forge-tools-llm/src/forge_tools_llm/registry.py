"""The tools that plugins of llm have registered, with their distributions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Registered:
    """A tool of llm or a toolbox class, under its name in llm."""

    name: str
    thing: Any
    origin: str

    @property
    def is_toolbox(self) -> bool:
        return isinstance(self.thing, type)


def registered() -> Iterator[Registered]:
    """Yield all registered tools, sorted by name because llm has no fixed order."""
    import llm
    from llm.plugins import pm

    found = llm.get_tools()
    origins = {
        pm.get_name(plugin): f"{dist.project_name} {dist.version}"
        for plugin, dist in pm.list_plugin_distinfo()
    }
    for name, thing in sorted(found.items()):
        plugin = getattr(thing, "plugin", None)
        yield Registered(name, thing, origins.get(plugin) or str(plugin or "llm"))
