"""Lookup of tools for commands: those of a worker, or all that need none."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import partial
from typing import Annotated

import typer

from forge_cli.cli.find_worker import find_trusted_worker, find_worker
from forge_cli.cli.output import data_output
from forge_cli.core.errors import UsageError
from forge_cli.core.source import OWN
from forge_cli.core.text import as_spelled, nearest_tool, visible
from forge_cli.core.wire import JsonObject
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.without_model import bare_worker
from forge_cli.files.home import forge_home
from forge_cli.files.settings_files import organisation_policy
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.inspector import inspect
from forge_cli.inspection.tool_rows import (
    Details,
    details_of_all,
    details_of_worker,
    needed_settings,
)
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.schema.json.forms import derive_fields
from forge_cli.schema.json.problems import expectation
from forge_cli.toolsets.executables.manage import ExecutableManager

WorkerOption = Annotated[
    str | None, typer.Option("--worker", metavar="WORKER", help="Use the tools of this worker.")
]

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A tool in ~/.forge/tools.")]


def allowed_tools() -> ExecutableManager:
    """Return the user's executables; raise a ForgeError if the organisation forbids them."""
    if policy := organisation_policy():
        policy.check_executables()
    return ExecutableManager(forge_home())


def tool_worker(worker: str | None) -> Worker:
    """Return the named worker, or one with every built-in toolset that needs no settings."""
    if worker is not None:
        return load_worker(find_trusted_worker(worker, interactive=is_interactive()))
    host = PluginHost()
    policy = organisation_policy()
    own = [plugin for plugin in host.toolset_plugins() if plugin.distribution == OWN]
    if policy and not policy.allow.executables:
        own = [plugin for plugin in own if plugin.name != "executables"]
    return bare_worker({plugin.name: {} for plugin in own if not needed_settings(host, plugin)})


def unknown_tool(name: str, known: Collection[str], worker: str | None) -> UsageError:
    """Return the error for an unknown tool, or for an invalid executable of that name."""
    if problem := ExecutableManager(forge_home()).problem(name):
        return UsageError(
            f"'{name}' cannot be called: {problem}",
            hint=f"correct it, then: forge tools test {name}",
        )
    if near := nearest_tool(name, known):
        hint = f"did you mean '{near}'?"
    elif worker:
        hint = f"forge tools list {worker} shows them"
    else:
        hint = "a worker's own tools need --worker WORKER"
    return UsageError(f"there is no tool '{name}'", hint=hint)


def find_details(name: str, worker: str | None) -> Details:
    """Return the details of a tool, or of a toolset of that name."""
    path = find_worker(worker) if worker else None
    with data_output():
        of_worker = partial(inspect, details_of_worker, path, name, worker=path)
        known = in_loop(of_worker) if path else in_loop(details_of_all, name)
    name = as_spelled(name, known)
    if name not in known:
        raise unknown_tool(name, known, worker)
    return known[name]


def parameter_lines(schema: JsonObject) -> list[str]:
    """Return a line for each parameter: name, type and description."""
    lines: list[str] = []
    for field in derive_fields(schema):
        kind = expectation(schema["properties"][field.name], schema) or "anything"
        if field.required:
            kind += ", required"
        elif field.has_default:
            kind += f", default {json.dumps(field.default, ensure_ascii=False)}"
        meaning = f": {field.description}" if field.description else ""
        lines.append(visible(f"  {field.name} ({kind}){meaning}"))
    return lines
