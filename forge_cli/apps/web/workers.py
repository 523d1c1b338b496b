"""The workers that the page offers: those of the folder, and those that have a name."""

from __future__ import annotations

from pathlib import Path

from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import JsonObject
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SUFFIXES, NamedWorker, WorkerOrigin, named_workers
from forge_cli.files.regular import read_regular
from forge_cli.files.trust import TrustError, TrustStore
from forge_cli.files.worker import load_worker

MARKS = (b"\ninstructions:", b"\ntoolsets:")
"""Keys that a worker has, and hardly any other YAML file."""
UNTRUSTED = "it comes with this folder and is not trusted: forge trust shows it and asks"


def list_workers(folder: Path) -> list[JsonObject]:
    """Every worker that can be started here; one that is broken says why, and nothing of any is executed."""
    rows = [row for path in _files(folder) if (row := _row(path.stem, path, is_named=False))]
    taken = {row["name"] for row in rows}
    trust = TrustStore(forge_home())
    for named in named_workers(folder, forge_home()):
        if named.name not in taken and (row := _row(named.name, named.path, is_named=True)):
            taken.add(named.name)
            rows.append(row if is_trusted(named, trust) else {**row, "error": UNTRUSTED})
    return rows


def find_listed(folder: Path, wanted: str) -> JsonObject:
    """A worker by its name or its path, as the page knows them."""
    rows = list_workers(folder)
    for row in rows:
        if wanted in (row["name"], row["path"]):
            if row["error"] == UNTRUSTED:
                raise TrustError(f"{visible(str(row['path']))}: {UNTRUSTED}")
            return row
    hint = did_you_mean(wanted, [str(row["name"]) for row in rows])
    raise UsageError(f"there is no worker '{visible(wanted)}' here", hint=hint)


def check_trust(path: Path) -> None:
    """Refuse a worker that a folder brings, until somebody has agreed to it."""
    for folder in path.absolute().parents:
        for named in named_workers(folder, forge_home()) if (folder / ".forge").is_dir() else ():
            if named.path.resolve() == path.resolve() and not is_trusted(named, TrustStore(forge_home())):
                raise TrustError(f"{visible(str(path))}: {UNTRUSTED}")


def is_trusted(worker: NamedWorker, trust: TrustStore) -> bool:
    return worker.origin is not WorkerOrigin.PROJECT or trust.holds(worker)


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError:
        return []


def _row(name: str, path: Path, *, is_named: bool) -> JsonObject | None:
    try:
        worker = load_worker(path)
    except ForgeError as error:
        problem = str(error) if is_named or _looks_like_a_worker(path) else None
        return (problem and {"name": name, "path": str(path), "description": "", "error": problem}) or None
    shown = name if is_named else worker.name
    return {"name": shown, "path": str(path), "description": worker.config.description, "error": None}


def _looks_like_a_worker(path: Path) -> bool:
    try:
        text = b"\n" + read_regular(path)
    except OSError:
        return False
    return any(mark in text for mark in MARKS)
