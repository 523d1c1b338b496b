"""The model providers, their requirements and their models, queried concurrently."""

from __future__ import annotations

from typing import Any

import anyio

from forge_cli.core.errors import ForgeError
from forge_cli.core.messages import ListedModel, ModelFactory
from forge_cli.core.thirdparty import ThirdPartyError
from forge_cli.core.wire import error_text
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import MODEL, Plugin
from forge_cli.files.keys import find_key
from forge_cli.inspection.defaults import MODELS
from forge_cli.inspection.inspector import Inspector

ProviderRow = dict[str, Any]
LIST_TIMEOUT = 5.0
"""Seconds that a provider has to list its models."""


async def provider_rows(*, with_models: bool = False) -> list[ProviderRow]:
    """Return a row for each provider; the row of a broken plugin has ``error``."""
    plugins = PluginHost().model_plugins()
    rows: list[ProviderRow] = [{} for _ in plugins]

    async def look(index: int, plugin: Plugin) -> None:
        try:
            async with Inspector() as inspector:
                found = await inspector(provider_row, plugin.name, plugin.distribution, with_models)
        except ThirdPartyError as error:
            found = _broken(plugin, error.message)
        key = find_key(*found.pop("keys"))
        rows[index] = {**found, "key": f"{key.variable} from the {key.origin}" if key else None}

    async with anyio.create_task_group() as group:
        for index, plugin in enumerate(plugins):
            group.start_soon(look, index, plugin)
    return rows


def _row(plugin: Plugin) -> ProviderRow:
    prefix = plugin.name.removeprefix(MODEL)
    return {
        "provider": prefix,
        "origin": str(plugin),
        "ready": False,
        "needs": "",
        "missing": None,
        "models": [],
        "keys": [],
    }


def _broken(
    plugin: Plugin, problem: str, needs: str = "", remedy: str | None = None
) -> ProviderRow:
    return {
        **_row(plugin),
        "needs": needs,
        "error": problem,
        "remedy": remedy or f"reinstall {plugin}",
    }


async def provider_row(name: str, distribution: str, with_models: bool) -> ProviderRow:
    """Return the row of one provider, with its models if they are wanted."""
    host = PluginHost()
    plugin = host.named(name, distribution)
    try:
        factory = host.model(plugin.name.removeprefix(MODEL))
    except ForgeError as error:
        return _broken(plugin, error.message)
    try:
        missing = factory.missing()
        if with_models:
            listed = await _models(factory, ready=missing is None)
        else:
            listed = {}
    except ForgeError as error:
        # not the plugin's fault, for example stored keys that cannot be read
        [problem, *_] = str(error).splitlines()
        return _broken(plugin, problem, factory.needs, error.hint)
    except Exception as error:  # third-party code
        told = error_text(error)
        problem = f"the plugin '{plugin.name}' of {plugin} cannot report what it needs: {told}"
        return _broken(plugin, problem, factory.needs)
    stated = {
        "ready": missing is None,
        "needs": factory.needs,
        "missing": missing,
        "keys": list(factory.keys),
    }
    return {**_row(plugin), **stated, **listed}


async def _models(factory: ModelFactory, *, ready: bool) -> dict[str, Any]:
    """Return the models of the catalogue and of the server, or why the server did not answer."""
    found = [_listed(model, "catalogue") for model in factory.catalog()]
    if factory.ask is None or not ready:
        return {"models": found}
    try:
        with anyio.fail_after(LIST_TIMEOUT):
            listed = [_listed(model, "server") for model in await factory.ask()]
            return {"models": [*found, *listed]}
    except ForgeError as error:
        return {"models": found, "unheard": error.message}
    except TimeoutError:
        return {
            "models": found,
            "unheard": f"it did not list its models within {LIST_TIMEOUT:g} s",
        }


def _listed(model: ListedModel, source: str) -> dict[str, Any]:
    return {
        "name": model.name,
        "context": model.context,
        "guessed": model.guessed,
        "source": source,
    }


async def ready_models() -> list[str]:
    """Return the models that are ready, the most likely first."""
    rows = await provider_rows(with_models=True)
    ready = [row for row in rows if row["ready"] and (row["models"] or row["provider"] in MODELS)]
    # first the providers whose server answered; the sort keeps the order of the others
    ready.sort(key=lambda row: all(model["source"] != "server" for model in row["models"]))
    names: list[str] = []
    for row in ready:
        names += [f"{row['provider']}:{model['name']}" for model in row["models"]]
    for row in ready:
        if not row["models"]:
            example = MODELS[row["provider"]]
            if "MODEL" not in example:  # a placeholder cannot be used as it is
                names.append(example)
    likely = [name for name in names if name in MODELS.values()]
    if names and names[0] not in likely:
        names = [*likely, *names]
    return list(dict.fromkeys(names))
