"""Loaders for the rows of ``forge tools list`` and for the details of one tool or toolset."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec.structs import replace

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import cut, visible
from forge_cli.core.wire import error_text
from forge_cli.engine.gate.offer import Offer, definition_tokens
from forge_cli.engine.plugins.host import PluginError, PluginHost
from forge_cli.engine.plugins.scan import Plugin
from forge_cli.engine.runtime.wiring import Assembly
from forge_cli.engine.runtime.without_model import bare_worker, opened
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import load_worker
from forge_cli.inspection.inspector import Inspector
from forge_cli.inspection.left_out import left_out, why_missing
from forge_cli.inspection.model_window import defer_tools
from forge_cli.inspection.sections import settings_of
from forge_cli.inspection.tool_row import Row
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset
from forge_cli.toolsets.executables.feedback import FeedbackStore
from forge_cli.toolsets.executables.imported import ImportRecords
from forge_cli.ui.wrap import wrap_for

MAX_DESCRIPTION = 1000
"""Characters of a description in a row."""


def _row(offer: Offer) -> Row:
    tool = offer.tool
    source = tool.source
    manual = tool.manual
    return Row(
        tool.name,
        offer.toolset,
        source.kind if source else "",
        source.origin if source else "",
        tool.mode,
        offer.policy.approval_word(tool),
        cut(tool.description.partition("\n")[0], MAX_DESCRIPTION, "end"),
        getattr(tool, "version", None),
        label=manual.label if manual else None,
        category=manual.category if manual else None,
        tokens=definition_tokens(tool),
    )


def _row_of_toolset(plugin: Plugin, toolset: type[Toolset]) -> Row:
    settings = settings_of(toolset)
    needed = ", ".join(each["name"] for each in settings if "required" in each)
    if needed:
        text = f"needs settings: {needed}"
    else:
        text = "has no tools without settings"
    return Row(
        plugin.name,
        plugin.name,
        plugin.source.kind,
        str(plugin),
        description=text,
        settings=settings,
    )


def _left_out(assembly: Assembly) -> list[Row]:
    return [Row.left_out(*each) for each in left_out(assembly.toolbox)]


@asynccontextmanager
async def only_plugin(host: PluginHost, plugin: Plugin, **more: Any) -> AsyncIterator[Assembly]:
    """Open a worker with one plugin, in an empty folder, as not every folder can be a zone."""
    with TemporaryDirectory(prefix="forge-look-") as folder:
        async with opened(
            bare_worker({plugin.name: {}}), workspace=Path(folder), host=host, **more
        ) as assembly:
            yield assembly


async def rows_of_plugin(name: str, distribution: str) -> list[Row]:
    """Return the tools of one plugin, or a row with the reason why it is broken."""
    load_settings(forge_home())
    host = PluginHost()
    plugin = host.named(name, distribution)
    try:
        rows: list[Row] = []
        if not needed_settings(host, plugin):
            async with only_plugin(host, plugin, make_zones=False) as assembly:
                rows = [*map(_row, assembly.toolbox.offers.values()), *_left_out(assembly)]
        return rows or [_row_of_toolset(plugin, host.toolset_of(plugin))]
    except ForgeError as error:
        _raise_of_settings(error)
        return [Row.broken(plugin, error)]
    except Exception as error:  # third-party code: a toolset is opened, asked and closed here
        problem = f"the plugin '{plugin.name}' of {plugin} cannot be listed: {error_text(error)}"
        return [Row.broken(plugin, PluginError(problem))]


def _raise_of_settings(error: ForgeError) -> None:
    """Raise an error in the user's config.yaml, so that the plugin is not blamed for it."""
    if error.where and error.where.file == str(forge_home() / "config.yaml"):
        raise error


async def rows_of_worker(path: str) -> list[Row]:
    """Return the tools of a worker, with those marked that its model does not see at first."""
    worker = load_worker(path)
    workspace = Path.cwd()
    async with opened(worker, workspace=workspace, make_zones=False) as assembly:
        broken = _left_out(assembly)
        offers = dict(assembly.toolbox.offers)
        deferred = await defer_tools(worker, assembly, load_settings(forge_home(), workspace))
        rows = [
            replace(_row(each), deferred=deferred.is_deferred(each) or None)
            for each in offers.values()
        ]
        return [*rows, *broken]


def needed_settings(host: PluginHost, plugin: Plugin) -> list[str]:
    """Return the settings of a plugin that only a worker can give."""
    fields = host.toolset_of(plugin).Config.model_fields
    return [name for name, field in fields.items() if field.is_required()]


Details = dict[str, Any]


async def details_of_worker(worker: str, wanted: str) -> dict[str, Details]:
    """Return the details of a tool, or of a toolset's tools, of a worker."""
    loaded = load_worker(worker)
    host = PluginHost(worker=loaded)
    async with opened(loaded, workspace=Path.cwd(), make_zones=False) as assembly:
        offered = list(assembly.toolbox.offers.values())
        if wanted not in assembly.toolbox.offers and (why := why_missing(assembly.toolbox, wanted)):
            raise UsageError(f"there is no tool '{wanted}'", hint=why)
    toolsets = {
        name: _toolset_details(*host.toolset(name), offered) for name in loaded.config.toolsets
    }
    return toolsets | {offer.tool.name: _details(offer) for offer in offered}


async def details_of_plugin(name: str, distribution: str) -> dict[str, Details]:
    """Return the details of a plugin's toolset and its tools, by name."""
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
    """Look for a tool or toolset in every plugin; warn about broken ones on the way."""
    load_settings(forge_home())
    found: dict[str, Details] = {}
    for plugin in PluginHost().toolset_plugins():
        if wanted in found:
            break
        try:
            async with Inspector() as inspector:
                found = await inspector(details_of_plugin, plugin.name, plugin.distribution) | found
        except ForgeError as error:
            _raise_of_settings(error)
            sys.stderr.write(wrap_for(sys.stderr, f"warning: {visible(error.message)}") + "\n")
    return found


def _details(offer: Offer) -> Details:
    tool = offer.tool
    if tool.manual:
        menu = {"label": tool.manual.label, "category": tool.manual.category}
    else:
        menu = {}
    known = {
        "version": getattr(tool, "version", None),
        **menu,
        "imported": _origin_of(tool),
        "feedback": _feedback_on(tool),
    }
    effects: list[str] | str = "unknown"
    if tool.effects is not None:
        effects = sorted(effect.value for effect in tool.effects)
    return {
        "name": tool.name,
        "description": tool.description,
        "toolset": offer.toolset,
        "source": tool.source.kind if tool.source else "",
        "origin": tool.source.origin if tool.source else "",
        **{key: value for key, value in known.items() if value},
        "mode": tool.mode,
        "approval": offer.policy.approval_word(tool),
        "effects": effects,
        "risk": tool.risk,
        "inputSchema": tool.schema.json_schema,
    }


def _feedback_on(tool: Tool) -> list[Details]:
    """Return people's feedback on the current version of an executable."""
    if tool.source is None or tool.source.kind != "executable":
        return []
    given = FeedbackStore(forge_home()).of(Path(tool.source.origin).name)
    return [
        {"time": each.time, "text": each.text, "summary": f"{each.day}: {each.text}"}
        for each in given
        if each.digest == tool.digest
    ]


def _origin_of(tool: Tool) -> Details | None:
    """Return where an executable was imported from, and whether it has changed since."""
    if tool.source is None or tool.source.kind != "executable":
        return None
    found = ImportRecords(forge_home()).of(Path(tool.source.origin).name)
    if found is None:
        return None
    return {
        **msgspec.to_builtins(found),
        "changed": found.digest != tool.digest,
        "summary": found.sentence(tool.digest),
    }
