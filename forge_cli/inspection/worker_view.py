"""Views of a worker for ``forge worker show``, made in the process that may load its code."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from forge_cli.core.bus import EventBus
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.assemble import Assembly
from forge_cli.engine.runtime.without_model import opened
from forge_cli.engine.turns.environment import environment_of, system_prompt, wanted_output
from forge_cli.files.home import forge_home
from forge_cli.files.settings import load_settings
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.facts import Facts, facts_of, policy_of, tree_of
from forge_cli.inspection.model_names import defer_tools
from forge_cli.ui.warnings import warn_of_events


async def worker_view(name: str, folder: str, view: str, branch: str | None, guidance: str) -> Facts:
    """One view of a worker: its facts, its policy, its tree or its prompt."""
    workspace = Path(folder)
    worker, host, bus, settings = load_worker(name), PluginHost(), EventBus(), load_settings(forge_home(), workspace)
    warn_of_events(bus)
    if os.environ.get("FORGE_MODEL"):
        settings = settings.model_copy(update={"model": os.environ["FORGE_MODEL"]})
    open_worker = partial(opened, workspace=workspace, host=host, bus=bus, make_zones=False)
    async with open_worker(worker) as assembly:
        match view:
            case "policy":
                return policy_of(assembly)
            case "tree":
                return await tree_of(worker, assembly, open_worker, settings)
            case "prompt":
                await defer_tools(worker, assembly, settings)
                return {"prompt": _prompt(worker, assembly, branch, guidance)}
            case _:
                return facts_of(worker, assembly, settings)


def _prompt(worker: Worker, assembly: Assembly, branch: str | None, guidance: str) -> str:
    environment = environment_of(worker, assembly.toolbox, assembly.guard.judge, branch)
    return system_prompt(worker, guidance, assembly.toolbox, wanted_output(worker), environment)
