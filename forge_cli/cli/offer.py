"""What ``forge`` alone offers on a terminal: to talk to the worker of the folder."""

from __future__ import annotations

from pathlib import Path

from forge_cli.cli.ask import ask
from forge_cli.cli.stdin import is_interactive
from forge_cli.cli.welcome import chosen_model, missing_of
from forge_cli.core.errors import ForgeError
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import WorkerOrigin, named_workers
from forge_cli.files.trust import TrustStore
from forge_cli.files.worker import Worker, load_worker


def offer_worker() -> str | None:
    """The worker of this folder, where a person wants to talk to it; nothing is asked where no model is there."""
    found = _worker_here() if is_interactive() else None
    if found is None or not _has_model(found[1]):
        return None
    named, worker = found
    answer = ask(f"Talk to {worker.name}? [Y/n] > ", at_end="n")
    return named if answer.lower() in ("", "y", "yes") else None


def _has_model(worker: Worker) -> bool:
    try:
        model = worker.config.model or chosen_model()[1]
        return bool(model and not missing_of(model.partition(":")[0]))
    except ForgeError:
        return False


def _worker_here() -> tuple[str, Worker] | None:
    """``worker.yaml``, or the first of the folder's own workers that is trusted, with what to call it by."""
    try:
        if Path("worker.yaml").is_file():
            return "worker.yaml", load_worker("worker.yaml")
        trust = TrustStore(forge_home())
        own = [each for each in named_workers(Path.cwd(), forge_home()) if each.origin is WorkerOrigin.PROJECT]
        return next(((each.name, load_worker(each.path)) for each in own if trust.holds(each)), None)
    except ForgeError:
        return None
