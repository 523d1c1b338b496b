"""Everything that is known of one tool, or of a toolset."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import visible
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import Plugin
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.worker import load_worker
from forge_cli.inspection.inspector import Inspector
from forge_cli.inspection.left_out import why_missing
from forge_cli.inspection.sections import settings_of
from forge_cli.inspection.tool_rows import needed_settings, only_plugin
from forge_cli.schema.toolset import Toolset
from forge_cli.ui.wrap import wrap_for

Details = dict[str, Any]


async def details_of_worker(worker: str, wanted: str) -> dict[str, Details]:
    loaded = load_worker(worker)
    host = PluginHost(worker=loaded)
    async with opened(loaded, workspace=Path.cwd(), make_zones=False) as assembly:
        offered = list(assembly.toolbox.offers.values())
        if wanted not in assembly.toolbox.offers and (why := why_missing(assembly.toolbox, wanted)):
            raise UsageError(f"there is no tool '{wanted}'", hint=why)
    toolsets = {name: _toolset_details(*host.toolset(name), offered) for name in loaded.config.toolsets}
    return toolsets | {offer.tool.name: _details(offer) for offer in offered}


async def details_of_plugin(name: str, distribution: str) -> dict[str, Details]:
    host = PluginHost()
    plugin = host.named(name, distribution)
    offered: list[Offer] = []
    if not needed_settings(host, plugin):
        async with only_plugin(host, plugin, make_zones=False) as assembly:
            offered = list(assembly.toolbox.offers.values())
    toolset = {name: _toolset_details(host.toolset_of(plugin), plugin, offered)}
    return toolset | {offer.tool.name: _details(offer) for offer in offered}


def _toolset_details(toolset: type[Toolset], plugin: Plugin, offered: Sequence[Offer]) -> Details:
    return {
        "toolset": toolset.name,
        "source": plugin.source.kind,
        "origin": str(plugin),
        "tools": [offer.tool.name for offer in offered if offer.toolset == toolset.name],
        "settings": settings_of(toolset),
    }


async def details_of_all(wanted: str) -> dict[str, Details]:
    """Of every plugin by itself, up to the one that has what is wanted; a broken one is told of on the way."""
    found: dict[str, Details] = {}
    for plugin in PluginHost().toolset_plugins():
        if wanted in found:
            break
        try:
            async with Inspector() as inspector:
                found = await inspector(details_of_plugin, plugin.name, plugin.distribution) | found
        except ForgeError as error:
            sys.stderr.write(wrap_for(sys.stderr, f"warning: {visible(error.message)}") + "\n")
    return found


def _details(offer: Offer) -> Details:
    tool = offer.tool
    menu = {"label": tool.manual.label, "category": tool.manual.category} if tool.manual else {}
    known = {"version": getattr(tool, "version", None), **menu}
    return {
        "name": tool.name,
        "description": tool.description,
        "toolset": offer.toolset,
        "source": tool.source.kind if tool.source else "",
        "origin": tool.source.origin if tool.source else "",
        **{key: value for key, value in known.items() if value},
        "mode": tool.mode,
        "approval": offer.policy.approval_word(tool),
        "effects": sorted(effect.value for effect in tool.effects) if tool.effects is not None else "unknown",
        "risk": tool.risk,
        "inputSchema": tool.schema.json_schema,
    }
