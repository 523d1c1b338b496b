"""Everything that is known of one tool, or of a toolset."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forge_cli.cli.output import data_output
from forge_cli.cli.sections import settings_of
from forge_cli.cli.tools.choose import unknown_tool
from forge_cli.cli.tools.rows import plugin_offers
from forge_cli.cli.worker.find import find_worker
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import Plugin
from forge_cli.engine.runtime.without_model import opened
from forge_cli.files.worker import load_worker
from forge_cli.inspection.left_out import why_missing
from forge_cli.inspection.looker import Looker, look
from forge_cli.process.signals import in_loop
from forge_cli.schema.forms import derive_fields
from forge_cli.schema.problems import expectation
from forge_cli.schema.toolset import Toolset
from forge_cli.ui.wrap import wrap_for

Details = dict[str, Any]


def find_details(name: str, worker: str | None) -> Details:
    """What is known of a tool, or else of a toolset, of a worker, or of one that needs none."""
    path = find_worker(worker) if worker else None
    with data_output():
        known = look(details_of_worker, path, name, worker=path) if path else in_loop(_details_of_all, name)
    if name not in known:
        raise unknown_tool(name, known, worker)
    return known[name]


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
    host, offered = PluginHost(), await plugin_offers(name, distribution)
    plugin = host.named(name, distribution)
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


async def _details_of_all(wanted: str) -> dict[str, Details]:
    """Of every plugin by itself, up to the one that has what is wanted; a broken one is told of on the way."""
    found: dict[str, Details] = {}
    for plugin in PluginHost().toolset_plugins():
        if wanted in found:
            break
        try:
            async with Looker() as looker:
                found = await looker(details_of_plugin, plugin.name, plugin.distribution) | found
        except ForgeError as error:
            sys.stderr.write(wrap_for(sys.stderr, f"warning: {visible(error.message)}") + "\n")
    return found


def parameter_lines(schema: JsonObject) -> list[str]:
    """One line for each argument: its name, what it has to be, what it means."""
    lines: list[str] = []
    for field in derive_fields(schema):
        kind = expectation(schema["properties"][field.name], schema) or "anything"
        default = f", default {json.dumps(field.default, ensure_ascii=False)}" if field.has_default else ""
        meaning = f": {field.description}" if field.description else ""
        lines.append(visible(f"  {field.name} ({kind}{', required' if field.required else default}){meaning}"))
    return lines


def _details(offer: Offer) -> Details:
    tool = offer.tool
    menu = {"label": tool.manual.label, "category": tool.manual.category} if tool.manual else {}
    known = {"version": tool.version, **menu}
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
