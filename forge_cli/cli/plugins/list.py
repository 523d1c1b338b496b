"""``forge plugins list``: every package with plugins, what it offers, and its problems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from forge_cli.cli.notices import warn_of_unknown_plugins
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.core.source import OWN
from forge_cli.engine.plugins.distributions import describe_offers, distributions, shared_names
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.requirements import missing, unfit
from forge_cli.engine.plugins.scan import COMMAND, LOAD_PLUGINS, Plugin
from forge_cli.inspection.plugin_checks import look_at
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import Column, print_json, print_table

app = new_app()


@app.command("list")
def list_plugins(as_json: JsonOption = False) -> None:
    """List every package with plugins, and what it offers.

    Only commands of plugins are loaded, each in a separate process; forge plugins check checks the
    rest.
    """
    host = PluginHost()
    warn_of_unknown_plugins()
    found = distributions((*host.plugins, *host.left_out)).values()
    rows = [_row(host, plugins) for plugins in found]
    if as_json:
        print_json(rows)
    else:
        shown = [
            {**row, "offers": _offers(row, plugins)}
            for row, plugins in zip(rows, found, strict=True)
        ]
        print_table(
            [Column("distribution"), Column("version", drop=1), Column("offers", room=40)], shown
        )


def _row(host: PluginHost, plugins: list[Plugin]) -> dict[str, Any]:
    first = plugins[0]
    row: dict[str, Any] = {
        "distribution": first.distribution,
        "version": first.version,
        "source": first.source.kind,
        "offers": [plugin.name for plugin in plugins],
        "loads": first in host.plugins,
    }
    if row["loads"] and first.distribution != OWN:
        problems = list(_problems(host, plugins))
        if problems:
            row["error"] = "; ".join(problems)
    return row


def _problems(host: PluginHost, plugins: list[Plugin]) -> Iterator[str]:
    distribution = plugins[0].distribution
    if built := unfit(distribution):
        yield built
    if absent := missing(distribution):
        yield f"needs {', '.join(absent)}, which {'are' if len(absent) > 1 else 'is'} not installed"
    for plugin in plugins:
        shared = list(shared_names(plugin, host))
        yield from shared
        if plugin.name.startswith(COMMAND) and not shared:
            for check in in_loop(look_at, plugin):
                if check.check == "loads" and not check.ok:
                    yield check.detail


def _offers(row: dict[str, Any], plugins: list[Plugin]) -> str:
    offered = describe_offers(plugins)
    if row["loads"]:
        return offered
    return f"{offered} (not loaded: {LOAD_PLUGINS} does not name it)"
