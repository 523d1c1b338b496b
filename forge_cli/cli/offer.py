"""The worker to talk to where the user names none: that of the folder, else ``coder``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from forge_cli.cli.ask import ask
from forge_cli.cli.welcome import MODELS, chosen_model, missing_of
from forge_cli.core.errors import ForgeError
from forge_cli.core.text import visible
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import WorkerOrigin, named_workers
from forge_cli.files.trust import TrustStore
from forge_cli.files.worker import load_worker
from forge_cli.inspection.providers import provider_rows
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive

FOLDERS_OWN, OTHERWISE = "worker.yaml", "coder"
SHOWN = 9
"""Models to choose from at once."""


def default_worker() -> str:
    """``worker.yaml``, the first of the folder's own workers that is trusted, or ``coder``."""
    if Path(FOLDERS_OWN).is_file():
        return FOLDERS_OWN
    trust = TrustStore(forge_home())
    own = [each for each in named_workers(Path.cwd(), forge_home()) if each.origin is WorkerOrigin.PROJECT]
    return next((each.name for each in own if trust.holds(each)), OTHERWISE)


def offer_talk() -> list[str]:
    """The arguments with which ``forge`` alone begins to talk; none where no model is ready, or the user declines.

    A folder's ``worker.yaml`` may bring code, and the user has not named it: forge asks first.
    """
    if not is_interactive():
        return []
    try:
        named = default_worker()
        chosen = _ready_model(named)
    except ForgeError:
        return []
    if chosen is None:
        return []
    if named == FOLDERS_OWN:
        name = load_worker(FOLDERS_OWN).name
        if ask(f"Talk to {name}? [Y/n] > ", at_end="n").lower() not in ("", "y", "yes"):
            return []
    return ["chat", named, *chosen]


def _ready_model(named: str) -> list[str] | None:
    """Options that name a model that is ready, if the worker and the settings name none; None where none is ready."""
    model = model_of(named)
    if model:
        return [] if missing_of(model.partition(":")[0]) is None else None
    picked = pick_model()
    return ["-m", picked] if picked else None


def model_of(named: str) -> str | None:
    """The model of a worker, or else of all."""
    path = next((each.path for each in named_workers(Path.cwd(), forge_home()) if each.name == named), named)
    return load_worker(path).config.model or chosen_model()[1]


def pick_model() -> str | None:
    """Have the person choose one of the models that are ready; None where none is, or they choose none."""
    ready = [row for row in in_loop(partial(provider_rows, with_models=True)) if row["ready"] and row["models"]]
    ready.sort(key=lambda row: all(model["source"] != "server" for model in row["models"]))
    names = [f"{row['provider']}:{model['name']}" for row in ready for model in row["models"]]
    likely = [name for name in names if name in MODELS.values()]
    names = list(dict.fromkeys((*(likely if names and names[0] not in likely else ()), *names)))
    if not names:
        return None
    for number, name in enumerate(names[:SHOWN], 1):
        sys.stderr.write(f"{number:3}  {visible(name)}\n")
    more = f" ({len(names) - SHOWN} more: forge models list)" if len(names) > SHOWN else ""
    typed = ask(f"Which model? A number or a name{more} [1] > ", at_end="-") or "1"
    if typed.isdecimal() and 1 <= int(typed) <= len(names):
        return names[int(typed) - 1]
    return None if typed == "-" else typed
