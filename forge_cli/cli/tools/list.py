"""``forge tools list``: every tool there is, or every tool of a worker."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.common import JsonOption, in_loop, new_app
from forge_cli.cli.output import data_output
from forge_cli.cli.table import print_json, print_table
from forge_cli.cli.tools.rows import Row, offers, offers_of
from forge_cli.core.errors import ForgeError
from forge_cli.core.tool import SourceKind
from forge_cli.core.wire import error_text
from forge_cli.engine.host import PluginError, PluginHost
from forge_cli.engine.scan import Plugin
from forge_cli.files.home import forge_home
from forge_cli.files.kept import Kept
from forge_cli.files.worker import load_worker

app = new_app()

WorkerArgument = Annotated[
    str | None, typer.Argument(metavar="WORKER", help="Only the tools of this worker, under its policy.")
]


@app.command("list")
def list_tools(
    worker: WorkerArgument = None,
    as_json: JsonOption = False,
    source: Annotated[SourceKind | None, typer.Option("--source", help="Only tools from there.")] = None,
) -> None:
    """List every tool, and what is broken.

    Each with its toolset, source, mode and approval; broken ones with the reason.
    """
    with data_output():
        rows = _rows_of_all() if worker is None else in_loop(_rows_of_worker, worker)
    shown = [row.wire() for row in rows if source is None or row.source == source]
    if as_json:
        print_json(shown)
    else:
        print_table(["name", "toolset", "source", "mode", "approval", "description"], shown)


async def _rows_of_worker(worker: str) -> list[Row]:
    return [Row.of(offer) for offer in await offers(load_worker(worker))]


def _rows_of_all() -> list[Row]:
    """Of every plugin by itself; what was found out about one is kept until it, or an executable, changes."""
    host, found, executables = PluginHost(), list[Row](), _stamp_of(forge_home() / "tools")
    with Kept(forge_home() / "cache" / "tools.json") as kept:
        for plugin in host.toolset_plugins():
            name, stamp = f"{plugin.name} of {plugin}", f"{plugin.stamp()} {executables}"
            rows = _rows_of_kept(kept.find(name, stamp))
            if rows is None:
                rows = in_loop(_rows_of_plugin, host, plugin)
                if not any(row.error for row in rows):
                    kept.keep(name, stamp, [vars(row) for row in rows])
            found += rows
    return found


def _stamp_of(folder: Path) -> str:
    """What changes when an executable is added, edited or removed; found without loading what reads them."""
    stats: list[tuple[str, int, int]] = []
    for path in sorted((*folder.glob("*"), *folder.glob("*/*"))):
        with suppress(OSError):
            status = path.lstat()
            stats.append((str(path), status.st_mtime_ns, status.st_size))
    return sha256(repr(stats).encode()).hexdigest()


def _rows_of_kept(value: Any) -> list[Row] | None:
    """Rows as they were kept; None where nothing was, or nothing that makes sense."""
    try:
        return [Row(**row) for row in value]
    except TypeError:
        return None


async def _rows_of_plugin(host: PluginHost, plugin: Plugin) -> list[Row]:
    try:
        return [Row.of(offer) for offer in await offers_of(host, plugin)]
    except ForgeError as error:
        return [Row.broken(plugin, error)]
    except Exception as error:  # foreign code: a toolset is opened, asked and closed here
        problem = f"the plugin '{plugin.name}' of {plugin} cannot be listed: {error_text(error)}"
        return [Row.broken(plugin, PluginError(problem))]
