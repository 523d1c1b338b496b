"""``forge tools``: what there is to call, and calling one of them by hand through the same gate."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from forge_cli.cli.call import Invocation, call_tool, read_invocation, unknown_tool
from forge_cli.cli.common import Command, JsonOption, bare_worker, in_loop, new_app, opened, work_folder
from forge_cli.cli.output import data_output
from forge_cli.cli.table import print_json, print_table
from forge_cli.core.errors import ForgeError
from forge_cli.core.fields import derive_fields, expectation
from forge_cli.core.schema import JsonObject
from forge_cli.core.text import visible
from forge_cli.core.tool import SourceKind
from forge_cli.engine.guard import Offer
from forge_cli.engine.host import PluginHost
from forge_cli.engine.policy import as_verdict
from forge_cli.engine.scan import OWN, Plugin
from forge_cli.files.worker import Worker, load_worker

app = new_app(no_args_is_help=True)

WorkerArgument = Annotated[
    str | None, typer.Argument(metavar="WORKER", help="Only the tools of this worker, under its policy.")
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
    source: Annotated[SourceKind | None, typer.Option("--source", help="Only tools from there.")] = None,
) -> None:
    """List every tool, and what is broken.

    Each with its toolset, source, mode and approval; broken ones with the reason.
    """
    with data_output():
        rows = in_loop(_rows, worker)
    shown = [row.wire() for row in rows if source is None or row.source == source]
    if as_json:
        print_json(shown)
    else:
        print_table(["name", "toolset", "source", "mode", "approval", "description"], shown)


async def _rows(worker: str | None) -> list[Row]:
    if worker is not None:
        return [Row.of(offer) for offer in await _offers(load_worker(worker))]
    host = PluginHost()
    return [row for plugin in host.toolset_plugins() for row in await _rows_of(host, plugin)]


async def _rows_of(host: PluginHost, plugin: Plugin) -> list[Row]:
    try:
        return [Row.of(offer) for offer in await _offers_of(host, plugin)]
    except ForgeError as error:
        return [Row.broken(plugin, error)]


async def _offers_of(host: PluginHost, plugin: Plugin) -> list[Offer]:
    """The tools of one plugin, opened by itself; one that needs settings has none until a worker gives them."""
    if needs_settings(host, plugin):
        return []
    return await _offers(bare_worker({plugin.name: {}}, {"zones": []}), host)


async def _offers(worker: Worker, host: PluginHost | None = None) -> list[Offer]:
    async with opened(worker, workspace=Path.cwd(), host=host) as assembly:
        return list(assembly.toolbox.offers.values())


def needs_settings(host: PluginHost, plugin: Plugin) -> bool:
    fields = host.toolset_of(plugin).Config.model_fields.values()
    return any(field.is_required() for field in fields)


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
        return await _offers(load_worker(worker))
    host, found = PluginHost(), list[Offer]()
    for plugin in host.toolset_plugins():
        with suppress(ForgeError):
            found += await _offers_of(host, plugin)
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


def tool_worker(worker: str | None) -> Worker:
    """The worker that is named, or one with every built-in toolset that needs no settings."""
    if worker is not None:
        return load_worker(worker)
    host = PluginHost()
    own = [plugin for plugin in host.toolset_plugins() if plugin.distribution == OWN]
    return bare_worker({plugin.name: {} for plugin in own if not needs_settings(host, plugin)})


class RawCommand(Command):
    """Takes its words as they are: the tool's own arguments are no options of forge."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = args[: args.index("--")] if "--" in args else args
        if "--help" in own or "-h" in own[:1]:
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
    with data_output() as out:
        code = in_loop(call_tool, invocation, tool_worker(invocation.worker), work_folder(invocation.directory), out)
    raise typer.Exit(code)
