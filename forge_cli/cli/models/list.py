"""``forge models list``: which models can be asked for, and what each provider still needs."""

from __future__ import annotations

from typing import Any

from forge_cli.cli.looking.looker import Looker, ThirdPartyError
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.signals import in_loop
from forge_cli.cli.table import print_json, print_table
from forge_cli.core.errors import ForgeError
from forge_cli.core.wire import error_text
from forge_cli.engine.plugins.host import MODEL, PluginHost
from forge_cli.engine.plugins.scan import Plugin

app = new_app()

ProviderRow = dict[str, Any]


@app.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the providers, what each needs, and whether it is there."""
    with data_output():
        rows = in_loop(provider_rows)
    if as_json:
        print_json(rows)
    else:
        shown = [{**row, "ready": "yes" if row["ready"] else "no"} for row in rows]
        print_table(["model", "ready", "needs"], shown)


async def provider_rows() -> list[ProviderRow]:
    """Every provider by itself; a broken plugin is a row with ``error``."""
    rows: list[ProviderRow] = []
    for plugin in PluginHost().model_plugins():
        try:
            async with Looker() as looker:
                rows.append(await looker(provider_row, plugin.name, plugin.distribution))
        except ThirdPartyError as error:
            rows.append({**_row(plugin), "ready": False, "needs": "", "missing": None, "error": error.message})
    return rows


def _row(plugin: Plugin) -> ProviderRow:
    prefix = plugin.name.removeprefix(MODEL)
    return {"model": f"{prefix}:...", "provider": prefix, "origin": str(plugin)}


async def provider_row(name: str, distribution: str) -> ProviderRow:
    host = PluginHost()
    plugin = host.named(name, distribution)
    prefix, row = plugin.name.removeprefix(MODEL), _row(plugin)
    try:
        factory = host.model(prefix)
    except ForgeError as error:
        return {**row, "ready": False, "needs": "", "missing": None, "error": error.message}
    try:
        missing = factory.missing()
    except Exception as error:  # third-party code
        problem = f"the plugin '{plugin.name}' of {plugin} cannot tell what it needs: {error_text(error)}"
        return {**row, "ready": False, "needs": factory.needs, "missing": None, "error": problem}
    return {**row, "ready": missing is None, "needs": factory.needs, "missing": missing}
