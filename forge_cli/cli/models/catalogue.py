"""The names that ``/model`` completes: aliases, models of the config, and what forge's own providers have."""

from __future__ import annotations

from pathlib import Path

from forge_cli.core.errors import ForgeError
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import MODEL
from forge_cli.files.home import forge_home
from forge_cli.files.settings import load_settings


def model_names(workspace: Path) -> list[str]:
    """As ``forge models list`` has them, but no server is asked, and no third-party code runs for it."""
    host = PluginHost([])
    try:
        settings = load_settings(forge_home(), workspace)
    except ForgeError:
        return []
    names = [*settings.aliases, *settings.models]
    for plugin in host.model_plugins():
        prefix = plugin.name.removeprefix(MODEL)
        try:
            names += [f"{prefix}:{name}" for name in host.model(prefix).known_names()]
        except ForgeError:
            continue
    return list(dict.fromkeys(names))
