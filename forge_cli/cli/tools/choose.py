"""Which tools a command is about: those of a worker, or those that need none."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import typer

from forge_cli.cli.tools.programs import own_tools
from forge_cli.cli.tools.rows import needs_settings
from forge_cli.cli.worker.find import find_trusted_worker
from forge_cli.core.errors import UsageError
from forge_cli.core.source import OWN
from forge_cli.core.text import did_you_mean
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.without_model import bare_worker
from forge_cli.files.settings import organisation_policy
from forge_cli.files.worker import Worker, load_worker
from forge_cli.process.stdin import is_interactive

WorkerOption = Annotated[str | None, typer.Option("--worker", metavar="WORKER", help="The tools of this worker.")]


def tool_worker(worker: str | None) -> Worker:
    """The worker that is named, or one with every built-in toolset that needs no settings."""
    if worker is not None:
        return load_worker(find_trusted_worker(worker, interactive=is_interactive()))
    host, policy = PluginHost(), organisation_policy()
    own = [plugin for plugin in host.toolset_plugins() if plugin.distribution == OWN]
    if policy and not policy.allow.executables:
        own = [plugin for plugin in own if plugin.name != "executables"]
    return bare_worker({plugin.name: {} for plugin in own if not needs_settings(host, plugin)})


def unknown_tool(name: str, known: Collection[str], worker: str | None) -> UsageError:
    """There is no such tool, here or at all; of one in the folder of the tools, what is wrong with it."""
    if problem := own_tools().problem(name):
        return UsageError(f"'{name}' cannot be called: {problem}", hint=f"correct it, then: forge tools test {name}")
    all_of_them = f"forge tools list {worker} shows them" if worker else "a worker's own tools need --worker WORKER"
    return UsageError(f"there is no tool '{name}'", hint=did_you_mean(name, known, all_of_them))
