"""The rows of ``forge tools list``, and where the offers behind them come from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_cli.cli.common import bare_worker, opened
from forge_cli.core.errors import ForgeError
from forge_cli.engine.guard import Offer
from forge_cli.engine.host import PluginHost
from forge_cli.engine.policy import as_verdict
from forge_cli.engine.scan import Plugin
from forge_cli.files.worker import Worker


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
    error: str | None = None

    @classmethod
    def of(cls, offer: Offer) -> Row:
        tool = offer.tool
        kind, origin = (tool.source.kind, tool.source.origin) if tool.source else ("", "")
        first_line = tool.description.partition("\n")[0]
        return cls(tool.name, offer.toolset, kind, origin, tool.mode, approval_of(offer), first_line)

    @classmethod
    def broken(cls, plugin: Plugin, error: ForgeError) -> Row:
        return cls(plugin.name, plugin.name, plugin.source.kind, str(plugin), error=error.message)

    def wire(self) -> dict[str, Any]:
        found = {key: value for key, value in vars(self).items() if key != "error"}
        return found if self.error is None else {**found, "error": self.error}


def approval_of(offer: Offer) -> str:
    """The approval that every call of a tool gets; ``depends`` where the tool looks at the arguments."""
    word = offer.tool.needs_approval
    if callable(word):
        blocked = offer.policy.named and offer.policy.named.approval.value == "blocked"
        return "blocked" if blocked else "depends"
    return offer.policy.combine(None if word is None else as_verdict(word)).approval.value


async def offers_of(host: PluginHost, plugin: Plugin) -> list[Offer]:
    """The tools of one plugin, opened by itself; one that needs settings has none until a worker gives them."""
    if needs_settings(host, plugin):
        return []
    return await offers(bare_worker({plugin.name: {}}, {"zones": []}), host)


async def offers(worker: Worker, host: PluginHost | None = None) -> list[Offer]:
    async with opened(worker, workspace=Path.cwd(), host=host) as assembly:
        return list(assembly.toolbox.offers.values())


def needs_settings(host: PluginHost, plugin: Plugin) -> bool:
    fields = host.toolset_of(plugin).Config.model_fields.values()
    return any(field.is_required() for field in fields)
