"""Trust in workers of the working directory, and errors for names that do not exist."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from forge_cli.cli.ask_trust import show_file
from forge_cli.cli.notices import ask, warn
from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.core.text import nearest, visible
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SUFFIXES, NamedWorker, is_path, is_sentence
from forge_cli.files.trust import TrustError, TrustStore, content_of, file_digests
from forge_cli.files.worker import load_worker
from forge_cli.inspection.worker_grants import Grant, grants_of, lines_of_grants


def first_trusted(found: Sequence[NamedWorker], *, runs: bool, interactive: bool) -> NamedWorker:
    """Return the first worker of a name that may be used.

    ``found`` lists the worker of the working directory first; it replaces the others only if it is
    trusted.
    """
    first = found[0]
    others = [each for each in found if each.origin is not first.origin]
    trust = TrustStore(forge_home())
    if trust.holds(first) or (interactive and _agrees(first, trust)):
        return first
    if others:
        warn(
            f"{os.path.relpath(first.path)} is not trusted; "
            f"using the {others[0].origin} worker '{first.name}' instead"
        )
        return others[0]
    if runs:
        raise _untrusted(first.path)
    return first


def check_unnamed(path: str, *, interactive: bool) -> None:
    """Ask for trust in the folder's own worker if the user did not name it.

    A worker that grants itself nothing needs no trust. A yes is kept until a file changes.
    """
    worker = load_worker(path)
    trust = TrustStore(forge_home())
    grants = grants_of(worker, Path.cwd())
    read = content_of(worker)
    new = [
        file
        for file, content in read.items()
        if content is None or not trust.holds_file(file, content)
    ]
    if not grants or not new:
        return
    # if no file was ever trusted, there is no difference to show
    known = any(trust.kept_text(file) is not None for file in read)
    before = {file: trust.kept_text(file) for file in new} if known else {}
    if not interactive or not _wants(worker.path, before, grants):
        raise _untrusted(worker.path)
    # the answer is about the files that were shown
    if read != content_of(load_worker(path)):
        raise TrustError(f"{path} changed while you were asked", hint="review it again")
    for file, content in read.items():
        if content is not None:
            trust.add_file(file, content)


def _agrees(worker: NamedWorker, trust: TrustStore) -> bool:
    """Ask on the terminal; a yes is kept until one of the worker's files changes."""
    digests = file_digests(worker)
    changes = {worker.root / name: before for name, before in trust.changes(worker).items()}
    agreed = _wants(worker.path, changes, grants_of(load_worker(worker.path), Path.cwd()))
    if agreed and digests != file_digests(worker):
        raise TrustError(
            f"{os.path.relpath(worker.path)} changed while you were asked", hint="review it again"
        )
    if agreed:
        trust.add(worker, digests)
    return agreed


def _wants(path: Path, changes: Mapping[Path, str | None], grants: list[Grant]) -> bool:
    """Show the worker's grants, and what changed since it was trusted, and ask."""
    if changes:
        since = "changed since it was trusted"
    else:
        since = "is not trusted yet"
    sys.stderr.write(f"{visible(os.path.relpath(path))} comes with this folder and {since}.\n")
    for file, before in changes.items():
        now = file.read_bytes() if file.is_file() else b""
        show_file(file, "one of its files", before, now)
    if changes:
        sys.stderr.write("\n")
    for line in lines_of_grants(grants):
        sys.stderr.write(f"{visible(line)}\n")
    return ask("Use it until one of its files changes? [y]es, [n]o > ").lower() in ("y", "yes")


def _untrusted(path: Path) -> TrustError:
    shown = os.path.relpath(path)
    hint = f"read it, then answer the question on a terminal, or name the file: {shown}"
    return TrustError(f"{shown} comes with this folder and is not trusted", hint=hint)


def unknown_worker(name: str, known: Sequence[NamedWorker]) -> WorkerError:
    """Return the error for an unknown name, with the known ones."""
    beside = [f"{name}{suffix}" for suffix in SUFFIXES if os.path.isfile(f"{name}{suffix}")]
    near = nearest(name, {worker.name for worker in known})
    if beside:  # the user has left out the ending
        near = beside[0]
    meant = f"; did you mean '{near}'?" if near else ""
    names = ", ".join(dict.fromkeys(worker.name for worker in known))
    hint = f"there are: {names}; a path with a slash or an ending such as .yaml works, too"
    return WorkerError(None, f"there is no worker '{visible(name)}'{meant}", hint=hint)


def refuse_sentence(text: str) -> None:
    """Raise a UsageError with the right command if the task was given instead of the worker."""
    if text.strip() and not is_path(text) and is_sentence(text):
        problem = f"{_quoted(text)} is a task; name the worker first"
        raise UsageError(problem, hint=f"forge run coder {_quoted(text)}")


def _quoted(text: str) -> str:
    if set(text) & set('"$`\\!'):
        return shlex.quote(text)
    return f'"{visible(text)}"'
