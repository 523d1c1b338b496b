"""The tools that plugins of llm have registered: each tool and toolbox with its distribution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Registered:
    """A tool of llm, or the class of a toolbox, under the name that llm gives it."""

    name: str
    thing: Any
    origin: str

    @property
    def is_toolbox(self) -> bool:
        return isinstance(self.thing, type)


def registered() -> Iterator[Registered]:
    """Everything that ``register_tools`` of the installed plugins gave, by name: llm asks them in no order."""
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
