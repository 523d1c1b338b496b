"""``forge tools show``: one tool, with everything that is known of it."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.signals import in_loop
from forge_cli.cli.table import print_json
from forge_cli.cli.tools.choose import WorkerOption, unknown_tool
from forge_cli.cli.tools.rows import approval_of, offers, plugin_offers
from forge_cli.core.errors import ForgeError
from forge_cli.core.fields import derive_fields, expectation
from forge_cli.core.signature import JsonObject
from forge_cli.core.text import visible
from forge_cli.engine.gate.toolbox import Offer
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.worker import load_worker

app = new_app()


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool.")],
    worker: WorkerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one tool.

    What it does, what it takes, who may call it and what it needs.
    """
    with data_output():
        offer = in_loop(_find, name, worker)
    details = _details(offer)
    if as_json:
        print_json(details)
        return
    schema = details.pop("inputSchema")
    for key, value in details.items():
        text = ", ".join(value) if isinstance(value, list) else value
        sys.stdout.write(visible(f"{key}: {text}", keep="\n\t") + "\n")
    parameters = _parameters(schema)
    sys.stdout.write("\n".join(["input:", *parameters] if parameters else ["input: none"]) + "\n")


async def _find(name: str, worker: str | None) -> Offer:
    found = {offer.tool.name: offer for offer in await _known_offers(worker)}
    if name not in found:
        raise unknown_tool(name, found, worker)
    return found[name]


async def _known_offers(worker: str | None) -> list[Offer]:
    """The worker's tools, or those of every plugin that works."""
    if worker is not None:
        return await offers(load_worker(worker))
    host, found = PluginHost(), list[Offer]()
    for plugin in host.toolset_plugins():
        with suppress(ForgeError):
            found += await plugin_offers(host, plugin)
    return found


def _parameters(schema: JsonObject) -> list[str]:
    """One line for each argument: its name, what it has to be, what it means."""
    lines: list[str] = []
    for field in derive_fields(schema):
        kind = expectation(schema["properties"][field.name], schema) or "anything"
        default = f", default {json.dumps(field.default, ensure_ascii=False)}" if field.has_default else ""
        meaning = f": {field.description}" if field.description else ""
        lines.append(visible(f"  {field.name} ({kind}{', required' if field.required else default}){meaning}"))
    return lines


def _details(offer: Offer) -> dict[str, Any]:
    tool = offer.tool
    return {
        "name": tool.name,
        "description": tool.description,
        "toolset": offer.toolset,
        "source": tool.source.kind if tool.source else "",
        "origin": tool.source.origin if tool.source else "",
        "mode": tool.mode,
        "approval": approval_of(offer),
        "effects": sorted(effect.value for effect in tool.effects) if tool.effects is not None else "unknown",
        "risk": tool.risk,
        "inputSchema": tool.schema.json_schema,
    }
