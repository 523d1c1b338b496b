"""``forge models list``: models with their prices and windows, and what providers still need."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from forge_cli.cli.options import JsonOption, new_app
from forge_cli.cli.output import data_output
from forge_cli.core.text import visible
from forge_cli.core.wire import camel_keys
from forge_cli.engine.turns.prices import price_of
from forge_cli.files.home import forge_home
from forge_cli.files.settings import Settings
from forge_cli.files.settings_files import load_settings
from forge_cli.inspection.providers import ProviderRow, provider_rows
from forge_cli.process.signals import in_loop
from forge_cli.ui.table import Column, print_json, print_table
from forge_cli.ui.wrap import wrap_for

app = new_app()

ModelRow = dict[str, Any]

COLUMNS = (
    "model",
    Column("in $/M", drop=1),
    Column("out $/M", drop=1),
    Column("window", drop=2),
    Column("note", room=9),
)


@app.command("list")
def list_models(as_json: JsonOption = False) -> None:
    """List the models that -m accepts, with their prices and windows.

    Includes the models of each provider's catalogue, of your own servers and of your config. What a
    provider still needs is listed below.
    """
    settings = load_settings(forge_home(), Path.cwd())
    with data_output():
        providers = in_loop(partial(provider_rows, with_models=True))
    offered = list(_offered(settings, providers))
    windows = {row["model"]: row["context"] for row in offered}
    rows = [*_aliases(settings, windows), *_configured(settings, windows), *offered]
    if as_json:
        print_json(list(map(camel_keys, rows)))
        return
    print_table(COLUMNS, list(map(_cells, rows)))
    for line in map(visible, _provider_notes(providers)):
        sys.stdout.write(f"{wrap_for(sys.stdout, line)}\n")


def _aliases(settings: Settings, windows: Mapping[str, int | None]) -> Iterator[ModelRow]:
    for name in settings.aliases:
        model = settings.resolve(name)
        yield {
            **_model_row(settings, model, windows.get(model), "alias"),
            "model": name,
            "alias_of": model,
        }


def _configured(settings: Settings, windows: Mapping[str, int | None]) -> Iterator[ModelRow]:
    """Yield models that the config describes and no provider lists."""
    for name in settings.models:
        if name not in windows:
            yield _model_row(settings, name, None, "config")


def _offered(settings: Settings, providers: Iterable[ProviderRow]) -> Iterator[ModelRow]:
    """Yield the models of each provider, or a row for the provider if it has none."""
    for provider in providers:
        for model in provider["models"]:
            name = f"{provider['provider']}:{model['name']}"
            row = _model_row(settings, name, model["context"], model["source"])
            if model["guessed"] and settings.options(name).context is None:
                row["context_guessed"] = True
            yield {**row, **_state(provider)}
        if not provider["models"]:
            name = f"{provider['provider']}:..."
            yield {
                "model": name,
                "price": None,
                "context": None,
                "source": "provider",
                **_state(provider),
            }


def _state(provider: ProviderRow) -> dict[str, Any]:
    return {
        key: provider[key]
        for key in ("provider", "origin", "ready", "needs", "missing", "error")
        if key in provider
    }


def _model_row(settings: Settings, model: str, context: int | None, source: str) -> ModelRow:
    options = settings.options(model)
    price = price_of(model, options)
    rates = price.rates() if price else None
    return {
        "model": model,
        "price": {"input": rates[0], "output": rates[1]} if rates else None,
        "context": options.context or context,
        "source": source,
    }


def _cells(row: ModelRow) -> dict[str, Any]:
    price = row["price"]
    window = _window(row["context"])
    if row.get("context_guessed"):
        window = f"~{window}"
    cells = {
        "model": row["model"],
        "in $/M": f"{price['input']:g}" if price else "-",
        "out $/M": f"{price['output']:g}" if price else "-",
        "window": window,
        "note": _note(row),
    }
    if "error" in row:
        cells["error"] = row["error"]
    return cells


def _note(row: ModelRow) -> str:
    if "alias_of" in row:
        return f"= {row['alias_of']}"
    if row["source"] == "config":
        return "in your config"
    return "" if row["ready"] else "not ready"


def _window(tokens: int | None) -> str:
    if tokens is None:
        return "-"
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens / 1000:.0f}k"


def _provider_notes(providers: Iterable[ProviderRow]) -> Iterator[str]:
    """Yield what each provider still needs, after a blank line."""
    notes = []
    for row in providers:
        for text in filter(None, (row["missing"], row.get("unheard"))):
            notes.append(f"{row['provider']}: {text}")
    if notes:
        yield from ["", *notes]
