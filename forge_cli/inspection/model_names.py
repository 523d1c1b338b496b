"""Checks of model names, and the names that ``/model`` completes."""

from __future__ import annotations

import re
from pathlib import Path

from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.text import did_you_mean, nearest
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import MODEL
from forge_cli.engine.runtime.model import NamedModel, not_a_model
from forge_cli.engine.runtime.prepared import user_policies
from forge_cli.files.home import forge_home
from forge_cli.files.settings import Settings
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import Worker

FILES = "script"
"""The provider whose models are files and cannot be listed."""
_DATE = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d|latest)$")
"""The end of a model's name that selects a version; a catalogue may list the name without it."""


def check_model(found: Worker, workspace: Path) -> str | None:
    """Return a warning about the model of a worker, or None.

    Raises a WorkerError if its provider does not exist.
    """
    settings = load_settings(forge_home(), workspace)
    if not found.config.model:
        return None
    where = found.config.where("model")
    model = settings.resolve(found.config.model)
    provider, colon, name = model.partition(":")
    if not colon or not name:
        raise not_a_model(model, settings, where)
    if provider == FILES or model in settings.models:
        return None
    try:
        factory = PluginHost(worker=found).model(provider)
    except WorkerError as error:
        error.where = where
        raise
    names = factory.known_names()
    if not names or name in names or _DATE.sub("", name) in names:
        return None
    near = nearest(name, names)
    if near:
        remedy = f"did you mean '{provider}:{near}'?"
    else:
        remedy = "forge models list shows its models"
    return f"{where}: {provider} has no known model '{name}'; {remedy}"


def check_script(worker: Worker, folder: Path) -> None:
    """Raise the error that a run would raise if the script of a model is missing or invalid."""
    settings = load_settings(forge_home(), folder)
    named = NamedModel.of(
        worker.config.model or "", settings, (worker.folder,), worker.config.where("model")
    )
    if named.name.startswith(f"{FILES}:"):
        named.make(PluginHost(worker=worker), settings, lambda level, message: None)


def check_settings(settings: Settings) -> None:
    """Raise a ForgeError for invalid values in config.yaml; no third-party code runs."""
    # forge's own plugins: loading another one to check its policy would run its code
    own = PluginHost([])
    host = PluginHost()
    home = forge_home()
    policy = user_policies(host, settings, home)
    for plugin in own.toolset_plugins():
        if plugin.name in settings.policy:
            policy(plugin.name, own.toolset(plugin.name)[0])
    if settings.model:
        named = [(settings.model, settings.where("model"))]
    else:
        named = []
    named += [(name, settings.where("aliases", alias)) for alias, name in settings.aliases.items()]
    named += [(name, settings.where("models", name)) for name in settings.models]
    for name, where in named:
        check_name(name, settings, host, where)


def check_name(name: str, settings: Settings, host: PluginHost, where: Mark | None = None) -> None:
    """Raise a ForgeError if a name is neither an alias nor a model of an installed provider."""
    model = settings.resolve(name)
    provider, _, rest = model.partition(":")
    if not rest:
        raise not_a_model(model, settings, where)
    providers = [plugin.name.removeprefix(MODEL) for plugin in host.model_plugins()]
    if provider not in providers:
        hint = did_you_mean(provider, providers, f"installed: {', '.join(providers)}")
        raise WorkerError(where, f"there is no model provider '{provider}'", hint=hint)


def model_names(workspace: Path) -> list[str]:
    """Return the models that are ready, without asking a server or running third-party code."""
    host = PluginHost([])
    try:
        settings = load_settings(forge_home(), workspace)
    except ForgeError:
        return []
    names = [*settings.aliases, *settings.models]
    for plugin in host.model_plugins():
        prefix = plugin.name.removeprefix(MODEL)
        try:
            factory = host.model(prefix)
            if not factory.missing():
                names += [f"{prefix}:{name}" for name in factory.known_names()]
        except ForgeError:
            continue
    return list(dict.fromkeys(names))
