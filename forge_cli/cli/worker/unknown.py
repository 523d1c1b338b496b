"""What somebody could have meant who names a worker that there is not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forge_cli.core.errors import WorkerError
from forge_cli.core.text import nearest, visible
from forge_cli.files.lookup import SUFFIXES, NamedWorker


def unknown_worker(name: str, known: Sequence[NamedWorker]) -> WorkerError:
    """The error for such a name, with those that there are."""
    beside = [f"{name}{suffix}" for suffix in SUFFIXES if Path(f"{name}{suffix}").is_file()]
    near = beside[0] if beside else nearest(name, {worker.name for worker in known})
    meant = f"; did you mean '{near}'?" if near else ""
    names = ", ".join(dict.fromkeys(worker.name for worker in known))
    hint = f"there are: {names}; a path with a slash or an ending such as .yaml works, too"
    return WorkerError(None, f"there is no worker '{visible(name)}'{meant}", hint=hint)
