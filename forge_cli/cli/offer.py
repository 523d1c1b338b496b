"""The worker to talk to where nobody names one: that of the folder, else ``coder``."""

from __future__ import annotations

from pathlib import Path

from forge_cli.cli.ask import ask
from forge_cli.cli.welcome import MODELS, chosen_model, missing_of
from forge_cli.core.errors import ForgeError
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import WorkerOrigin, named_workers
from forge_cli.files.trust import TrustStore
from forge_cli.files.worker import load_worker
from forge_cli.process.stdin import is_interactive

FOLDERS_OWN, OTHERWISE = "worker.yaml", "coder"


def default_worker() -> str:
    """``worker.yaml``, the first of the folder's own workers that is trusted, or ``coder``."""
    if Path(FOLDERS_OWN).is_file():
        return FOLDERS_OWN
    trust = TrustStore(forge_home())
    own = [each for each in named_workers(Path.cwd(), forge_home()) if each.origin is WorkerOrigin.PROJECT]
    return next((each.name for each in own if trust.holds(each)), OTHERWISE)


def offer_talk() -> list[str]:
    """The arguments with which ``forge`` alone begins to talk; none where no model is ready, or nobody wants to.

    A folder's ``worker.yaml`` may bring code, and nobody has named it: it is asked for.
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
    """What names a model that is ready, where the worker and the settings name none; None where none is ready."""
    path = next((each.path for each in named_workers(Path.cwd(), forge_home()) if each.name == named), named)
    model = load_worker(path).config.model or chosen_model()[1]
    if model:
        return [] if missing_of(model.partition(":")[0]) is None else None
    ready = [example for provider, example in MODELS.items() if missing_of(provider) is None]
    if not ready:
        return None
    default = ready[0] if ready[0] != MODELS["openai"] else ""
    hint = f" [{default}]" if default else " (PROVIDER:MODEL)"
    typed = ask(f"Which model?{hint} > ", at_end="") or default
    return ["-m", typed] if typed else None
