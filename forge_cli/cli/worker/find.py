"""The worker that a command line names: a path as it is, or a name that is looked up."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from forge_cli.cli.ask import ask
from forge_cli.core.errors import UsageError, WorkerError
from forge_cli.core.text import nearest, visible
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SUFFIXES, NamedWorker, WorkerOrigin, is_path, is_sentence, named_workers

if TYPE_CHECKING:
    from forge_cli.files.trust import TrustStore

WorkerArgument = Annotated[
    str, typer.Argument(metavar="WORKER", help="A name (forge worker list), a worker file, or a folder with one.")
]


def find_worker(name: str) -> str:
    """The path of a worker that is only looked at."""
    return _find(name, runs=False, interactive=False)


def find_trusted_worker(name: str, *, interactive: bool) -> str:
    """The path of a worker that is about to run; one of the working directory's own needs trust."""
    return _find(name, runs=True, interactive=interactive)


def refuse_sentence(text: str) -> None:
    """Say what to type where the task was given in the place of the worker."""
    if text.strip() and not is_path(text) and is_sentence(text):
        problem = f"{_quoted(text)} is a task; the worker comes first"
        raise UsageError(problem, hint=f"forge run coder {_quoted(text)}")


def _find(name: str, *, runs: bool, interactive: bool) -> str:
    if not name.strip():
        raise UsageError("the name of the worker is empty", hint="forge worker list shows the names there are")
    known = named_workers(Path.cwd(), forge_home())
    found = [worker for worker in known if worker.name == name]
    if is_path(name):
        if found:
            _warn(f"{name} is a path here; the {found[0].origin} worker of that name is not used")
        return name
    if not found:
        if Path(name).is_dir():
            return name
        raise _unknown(name, known)
    return str(_first_trusted(found, runs=runs, interactive=interactive).path)


def _first_trusted(found: Sequence[NamedWorker], *, runs: bool, interactive: bool) -> NamedWorker:
    """What the working directory brings cannot take the place of another worker before it is trusted."""
    first, *others = [each for each in found if each.origin is not found[0].origin or each is found[0]]
    if first.origin is not WorkerOrigin.PROJECT:
        return first
    from forge_cli.files.trust import TrustError, TrustStore

    trust = TrustStore(forge_home())
    if trust.holds(first) or (interactive and _agrees(first, trust)):
        return first
    if others:
        _warn(f"{_shown(first)} is not trusted; '{first.name}' is the {others[0].origin} worker instead")
        return others[0]
    if runs:
        hint = f"read it, then answer the question on a terminal, or name the file: {_shown(first)}"
        raise TrustError(f"{_shown(first)} comes with this folder and is not trusted", hint=hint)
    return first


def _agrees(worker: NamedWorker, trust: TrustStore) -> bool:
    """Ask on the terminal; a yes is kept until one of the worker's files changes."""
    from forge_cli.cli.worker.grants import grants_of, lines_of_grants
    from forge_cli.files.trust import file_digests
    from forge_cli.files.worker import load_worker

    digests = file_digests(worker)
    lines = lines_of_grants(grants_of(load_worker(worker.path), Path.cwd()))
    sys.stderr.write(f"{visible(_shown(worker))} comes with this folder and is not trusted yet.\n")
    sys.stderr.writelines(f"{visible(line)}\n" for line in lines)
    agreed = ask("Use it, until one of its files changes? [y]es, [n]o > ").lower() in ("y", "yes")
    if agreed:
        trust.add(worker, digests)
    return agreed


def _unknown(name: str, known: Sequence[NamedWorker]) -> WorkerError:
    beside = [f"{name}{suffix}" for suffix in SUFFIXES if Path(f"{name}{suffix}").is_file()]
    near = beside[0] if beside else nearest(name, {worker.name for worker in known})
    meant = f"; did you mean '{near}'?" if near else ""
    names = ", ".join(dict.fromkeys(worker.name for worker in known))
    hint = f"there are: {names}; a path with a slash or an ending such as .yaml works, too"
    return WorkerError(None, f"there is no worker '{visible(name)}'{meant}", hint=hint)


def _warn(sentence: str) -> None:
    sys.stderr.write(f"forge: {visible(sentence)}\n")


def _shown(worker: NamedWorker) -> str:
    return os.path.relpath(worker.path)


def _quoted(text: str) -> str:
    return shlex.quote(text) if set(text) & set('"$`\\!') else f'"{visible(text)}"'
