"""``forge tools list``: all tools, or the tools of a worker."""

from __future__ import annotations

import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import asdict

from forge_cli.cli.find_worker import find_worker
from forge_cli.cli.notices import warn_of_unknown_plugins
from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.source import SourceKind, ToolMode
from forge_cli.core.thirdparty import ThirdPartyError
from forge_cli.files.home import forge_home
from forge_cli.inspection.tool_row import Row, rows_of_all
from forge_cli.ui.table import Column, print_json, print_table

if TYPE_CHECKING:
    from forge_cli.engine.plugins.scan import Plugin
    from forge_cli.toolsets.executables.stats import ToolStats

app = new_app()

ToolsWorkerArgument = Annotated[
    str | None,
    typer.Argument(metavar="WORKER", help="Only the tools of this worker, under its policy."),
]


@app.command("list")
def list_tools(
    worker: ToolsWorkerArgument = None,
    as_json: JsonOption = False,
    source: Annotated[
        SourceKind | None, typer.Option("--source", help="Only tools of this source.")
    ] = None,
    mode: Annotated[
        ToolMode | None,
        typer.Option(
            "--mode", help="Only tools that the model (llm), a person (manual) or both may call."
        ),
    ] = None,
    stats: Annotated[
        bool,
        typer.Option(
            "--stats", help="Show how often each executable was called, and with what result."
        ),
    ] = False,
    tokens: Annotated[
        bool,
        typer.Option("--tokens", help="Show the approximate token cost of each tool."),
    ] = False,
) -> None:
    """List every tool, and what is broken.

    Each row has toolset, source, mode and approval; a broken tool has the reason.
    """
    path = find_worker(worker) if worker is not None else None
    warn_of_unknown_plugins()
    with data_output():
        if path is None:
            rows = rows_of_all(_rows_of_plugin)
        else:
            rows = _rows_of_worker(path)
    wanted = [row for row in rows if source in (None, row.source)]
    if mode is not None:
        wanted = [row for row in wanted if row.mode in (mode, "both")]
    if stats:
        _print_stats(wanted, as_json=as_json)
    elif tokens:
        _print_tokens(wanted, worker, as_json=as_json)
    elif as_json:
        print_json([row.wire() for row in wanted])
    else:
        found = [row.wire() for row in wanted]
        some = [
            Column(name, drop=0)
            for name in ("version", "label", "category")
            if any(name in row for row in found)
        ]
        known = [
            Column("toolset", drop=3),
            Column("source", drop=1),
            Column("mode", drop=2),
            Column("approval"),
        ]
        print_table([Column("name"), *known, *some, Column("description", room=40)], found)


def _print_stats(rows: list[Row], *, as_json: bool) -> None:
    """Print how often each tool was used.

    Statistics are kept by folder, because a worker may give a tool another name.
    """
    from forge_cli.toolsets.executables.registry import CREATE
    from forge_cli.toolsets.executables.stats import Stats, ToolStats

    stats = Stats(forge_home() / "tools")
    known = stats.read()
    creations = stats.creations()
    used = [
        (row, known.get(Path(row.origin).name, ToolStats()))
        for row in rows
        if row.source == "executable"
    ]
    if as_json:
        made = [
            {**row.wire(), "stats": {"creations": asdict(creations)}}
            for row in rows
            if row.name.endswith(CREATE)
        ]
        print_json([*({**row.wire(), "stats": usage.wire()} for row, usage in used), *made])
    else:
        optional = {"sessions": 1, "mean": 2, "success": 3, "last use": 4}
        names = ("name", "calls", "sessions", "success", "mean", "last use")
        columns = [
            *(Column(name, drop=optional.get(name)) for name in names),
            Column("description"),
        ]
        print_table(columns, [{**row.wire(), **_figures(usage)} for row, usage in used])
        counts = ", ".join(f"{count} {outcome}" for outcome, count in asdict(creations).items())
        sys.stdout.write(f"creations: {counts}\n")


def _figures(usage: ToolStats) -> dict[str, str]:
    """Return the statistics of a tool as text; an unknown figure is a dash."""
    last = "-"
    if usage.last_use:
        last = f"{datetime.fromisoformat(usage.last_use).astimezone():%Y-%m-%d %H:%M}"
    return {
        "calls": str(usage.calls),
        "sessions": str(usage.sessions),
        "success": "-" if usage.success is None else f"{usage.success:.0%}",
        "mean": "-" if usage.mean_ms is None else f"{usage.mean_ms} ms",
        "last use": last,
    }


def _print_tokens(rows: list[Row], worker: str | None, *, as_json: bool) -> None:
    """Print the tools by size, their sum, and its share of the model's window if that is known."""
    # these modules are slow to import, and a list from the cache needs none of them
    from forge_cli.inspection.inspector import inspect
    from forge_cli.inspection.model_window import share_of_window
    from forge_cli.process.signals import in_loop

    counted = sorted(
        (row for row in rows if row.tokens is not None), key=lambda row: -(row.tokens or 0)
    )
    if as_json:
        print_json([row.wire(tokens=True) for row in counted])
        return
    total = sum(row.tokens or 0 for row in counted)
    deferred = [row for row in counted if row.deferred]
    columns = ["name", "toolset", "tokens", *(["deferred"] if deferred else [])]
    table = [row.wire(tokens=True) for row in counted]
    for line in table:
        if "deferred" in line:
            line["deferred"] = "yes"
    print_table(columns, table)
    told = f"total: about {total:,} tokens"
    if share := in_loop(partial(inspect, share_of_window, total, worker, worker=worker)):
        told += f", {share}"
    sys.stdout.write(f"{told}\n")
    if deferred:
        left = total - sum(row.tokens or 0 for row in deferred)
        sys.stdout.write(
            f"deferred: {len(deferred)} (only named, until find_tools loads them); "
            f"the others: {left:,}\n"
        )


def _rows_of_worker(path: str) -> list[Row]:
    from forge_cli.inspection.inspector import inspect
    from forge_cli.inspection.tool_rows import rows_of_worker
    from forge_cli.process.signals import in_loop

    return in_loop(partial(inspect, rows_of_worker, path, worker=path))


def _rows_of_plugin(plugin: Plugin) -> list[Row]:
    from forge_cli.inspection.inspector import inspect
    from forge_cli.inspection.tool_rows import rows_of_plugin
    from forge_cli.process.signals import in_loop

    try:
        return in_loop(inspect, rows_of_plugin, plugin.name, plugin.distribution)
    except ThirdPartyError as error:
        return [Row.broken(plugin, error)]
