"""The context window of a worker's model, and how much of it tools take."""

from __future__ import annotations

import os
from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.core.messages import ModelFactory
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.runtime.wiring import Assembly
from forge_cli.engine.turns.offered import OfferedTools, ToolRoom
from forge_cli.files.home import forge_home
from forge_cli.files.settings import Settings
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import Worker, load_worker


async def share_of_window(tokens: int, worker: str | None) -> str | None:
    """Return ``2.1 % of the window of MODEL`` for the worker's model, or None if it is unknown."""
    loaded = load_worker(worker) if worker else None
    model, window = _model_of(loaded, load_settings(forge_home(), Path.cwd()))
    if window:
        return f"{tokens / window:.1%} of the window of {model}"
    return None


async def defer_tools(worker: Worker, assembly: Assembly, settings: Settings) -> OfferedTools:
    """Return the tools of a worker as its model sees them first."""
    room = ToolRoom.of(settings.tool_share_of(worker), _model_of(worker, settings)[1])
    offered = OfferedTools(assembly.toolbox, room)
    await offered.start()
    return offered


def _model_of(worker: Worker | None, settings: Settings) -> tuple[str | None, int | None]:
    """Return the model of a worker and the size of its window, each None if unknown."""
    own = worker.config.model if worker else None
    model = own or os.environ.get("FORGE_MODEL") or settings.model
    if not model:
        return model, None
    return model, _window_of(settings.resolve(model), settings)


def _window_of(model: str, settings: Settings) -> int | None:
    provider, _, name = model.partition(":")
    try:
        factory: ModelFactory = PluginHost().model(provider)
    except ForgeError:
        return None
    listed = {each.name: each.context for each in factory.catalog()}
    return settings.options(model).context or listed.get(name)
