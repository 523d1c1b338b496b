"""Names of workers that need a closer look: those of the working directory need trust, others do not exist."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from forge_cli.cli.ask_trust import show_file
from forge_cli.cli.notices import ask, warn
from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.core.text import nearest, visible
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SUFFIXES, NamedWorker, is_path, is_sentence
from forge_cli.files.trust import TrustError, TrustStore, file_digests
from forge_cli.files.worker import load_worker
from forge_cli.inspection.worker_grants import grants_of, lines_of_grants


def first_trusted(found: Sequence[NamedWorker], *, runs: bool, interactive: bool) -> NamedWorker:
    """The first worker that may be used: that of the working directory only takes another's place once it is trusted.

    ``found`` are all of one name, that of the working directory first.
    """
    first, *others = [each for each in found if each.origin is not found[0].origin or each is found[0]]
    trust = TrustStore(forge_home())
    if trust.holds(first) or (interactive and _agrees(first, trust)):
        return first
    if others:
        warn(f"{_shown(first)} is not trusted; '{first.name}' is the {others[0].origin} worker instead")
        return others[0]
    if runs:
        hint = f"read it, then answer the question on a terminal, or name the file: {_shown(first)}"
        raise TrustError(f"{_shown(first)} comes with this folder and is not trusted", hint=hint)
    return first


def _agrees(worker: NamedWorker, trust: TrustStore) -> bool:
    """Ask on the terminal; a yes is kept until one of the worker's files changes."""
    digests, changes = file_digests(worker), trust.changes(worker)
    lines = lines_of_grants(grants_of(load_worker(worker.path), Path.cwd()))
    since = "changed since it was trusted" if changes else "is not trusted yet"
    sys.stderr.write(f"{visible(_shown(worker))} comes with this folder and {since}.\n")
    for name, before in changes.items():
        path = worker.root / name
        show_file(path, "a file of it", before, path.read_bytes() if path.is_file() else b"")
    sys.stderr.writelines(f"{visible(line)}\n" for line in ["", *lines] if changes or line)
    agreed = ask("Use it, until one of its files changes? [y]es, [n]o > ").lower() in ("y", "yes")
    if agreed:
        trust.add(worker, digests)
    return agreed


def _shown(worker: NamedWorker) -> str:
    return os.path.relpath(worker.path)


def unknown_worker(name: str, known: Sequence[NamedWorker]) -> WorkerError:
    """The error for such a name, with those that there are."""
    beside = [f"{name}{suffix}" for suffix in SUFFIXES if os.path.isfile(f"{name}{suffix}")]
    near = beside[0] if beside else nearest(name, {worker.name for worker in known})
    meant = f"; did you mean '{near}'?" if near else ""
    names = ", ".join(dict.fromkeys(worker.name for worker in known))
    hint = f"there are: {names}; a path with a slash or an ending such as .yaml works, too"
    return WorkerError(None, f"there is no worker '{visible(name)}'{meant}", hint=hint)


def refuse_sentence(text: str) -> None:
    """Say what to type where the task was given in the place of the worker."""
    if text.strip() and not is_path(text) and is_sentence(text):
        problem = f"{_quoted(text)} is a task; the worker comes first"
        raise UsageError(problem, hint=f"forge run coder {_quoted(text)}")


def _quoted(text: str) -> str:
    return shlex.quote(text) if set(text) & set('"$`\\!') else f'"{visible(text)}"'
