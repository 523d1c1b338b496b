"""``forge tools``: what there is to call, and calling one of them by hand through the same gate."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand

from forge_cli.cli.call import Invocation, call_tool, read_invocation
from forge_cli.cli.common import JsonOption, bare_worker, in_loop, new_app, opened, work_folder
from forge_cli.core.config import nearest
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.engine.guard import Offer
from forge_cli.engine.host import PluginHost
from forge_cli.engine.policy import as_verdict
from forge_cli.engine.scan import OWN, Plugin
from forge_cli.files.worker import load_worker
from forge_cli.ui.render import plain

app = new_app(no_args_is_help=True)

WorkerArgument = Annotated[
    str | None, typer.Argument(metavar="[WORKER]", help="Only the tools of this worker, under its policy.")
]
WorkerOption = Annotated[str | None, typer.Option("--worker", metavar="WORKER", help="The tools of this worker.")]


@app.callback()
def tools() -> None:
    """List, show and call tools."""


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


@app.command("list")
def list_tools(
    worker: WorkerArgument = None,
    as_json: JsonOption = False,
    source: Annotated[
        str | None, typer.Option("--source", metavar="KIND", help="Only tools from there: builtin, package, local ...")
    ] = None,
) -> None:
    """List every tool with its toolset, source, mode and approval; broken ones with the reason."""
    rows = in_loop(_rows, worker)
    shown = [row for row in rows if source is None or row.source == source]
    if as_json:
        sys.stdout.write(json.dumps([row.wire() for row in shown], ensure_ascii=False, indent=2) + "\n")
    else:
        _print_table(shown)


async def _rows(worker: str | None) -> list[Row]:
    if worker is not None:
        async with opened(load_worker(worker), workspace=Path.cwd()) as assembly:
            return [Row.of(offer) for offer in assembly.toolbox.offers.values()]
    host = PluginHost()
    return [row for plugin in host.toolset_plugins() for row in await _rows_of(host, plugin)]


async def _rows_of(host: PluginHost, plugin: Plugin) -> list[Row]:
    """The tools of one plugin, opened by itself; one that needs settings has none until a worker gives them."""
    try:
        if needs_settings(host, plugin):
            return []
        async with opened(bare_worker({plugin.name: {}}, {"zones": []}), workspace=Path.cwd(), host=host) as assembly:
            return [Row.of(offer) for offer in assembly.toolbox.offers.values()]
    except ForgeError as error:
        return [Row.broken(plugin, error)]


def needs_settings(host: PluginHost, plugin: Plugin) -> bool:
    fields = host.toolset_of(plugin).Config.model_fields.values()
    return any(field.is_required() for field in fields)


def _print_table(rows: list[Row]) -> None:
    table = Table("tool", "toolset", "source", "mode", "approval", "description", box=None, pad_edge=False)
    for row in rows:
        cells = [row.name, row.toolset, row.source, row.mode, row.approval, row.description]
        if row.error is not None:
            cells = [row.name, row.toolset, row.origin, "", "broken", row.error]
        table.add_row(*(plain(cell) for cell in cells), style="red" if row.error is not None else None)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tool.")],
    worker: WorkerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one tool: what it takes, what it does, who may call it and what it needs."""
    offer = in_loop(_find, name, worker)
    details = _details(offer)
    if as_json:
        sys.stdout.write(json.dumps(details, ensure_ascii=False, indent=2) + "\n")
        return
    console = Console(highlight=False, soft_wrap=True)
    for key, value in details.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        console.print(plain(f"{key}: {text}"))


async def _find(name: str, worker: str | None) -> Offer:
    async with opened(tool_worker(worker), workspace=Path.cwd()) as assembly:
        offers = assembly.toolbox.offers
        if name not in offers:
            near = nearest(name, offers)
            remedy = f"did you mean '{near}'?" if near else "forge tools list shows them"
            raise UsageError(f"there is no tool '{name}'", hint=remedy)
        return offers[name]


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


def tool_worker(worker: str | None) -> Any:
    """The worker that is named, or one with every built-in toolset that needs no settings."""
    if worker is not None:
        return load_worker(worker)
    host = PluginHost()
    own = [plugin for plugin in host.toolset_plugins() if plugin.distribution == OWN]
    return bare_worker({plugin.name: {} for plugin in own if not needs_settings(host, plugin)})


class RawCommand(TyperCommand):
    """Takes its words as they are: the tool's own arguments are no options of forge."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help" in args or "-h" in args[:1]:
            return super().parse_args(ctx, ["--help"])
        ctx.meta["forge.words"] = args
        return super().parse_args(ctx, ["-"])


@app.command(cls=RawCommand)
def call(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME [KEY=VALUE]... [--KEY VALUE]...", help="The tool and its input.")
    ],
    worker: WorkerOption = None,
    json_input: Annotated[
        str | None, typer.Option("--json-input", metavar="JSON", help="The whole input as JSON.")
    ] = None,
    interactive: Annotated[bool, typer.Option("-i", help="Ask for each argument that is not given.")] = False,
    yes: Annotated[bool, typer.Option("-y", help="The same as --approval-mode approve_all.")] = False,
    approval_mode: Annotated[
        str | None, typer.Option("--approval-mode", metavar="MODE", help="interactive, approve_all or auto_deny.")
    ] = None,
    directory: Annotated[Path | None, typer.Option("-C", "--cd", metavar="DIR", help="Work in DIR.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result value as JSON.")] = False,
) -> None:
    """Call one tool by hand, through the same gate as the model's calls."""
    invocation: Invocation = read_invocation(ctx.meta["forge.words"])
    code = in_loop(call_tool, invocation, tool_worker(invocation.worker), work_folder(invocation.directory))
    raise typer.Exit(code)
