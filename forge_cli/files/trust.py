"""What the person agreed to: workers and settings of a folder, by the content of their files, and MCP tools."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.files.allowed import allowed_by, find_allowed
from forge_cli.files.lookup import NamedWorker
from forge_cli.files.module import imported_beside
from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file
from forge_cli.files.worker import Worker, load_worker

SKIPPED = "__pycache__"
UNREADABLE = "unreadable"


class TrustError(ForgeError):
    """Something that forge picks up from a folder by itself is not trusted."""

    exit_code = ExitCode.UNTRUSTED


class TrustStore:
    """The file ``trust.json`` in forge's home; what cannot be read there is not trusted."""

    def __init__(self, home: Path) -> None:
        self._file = home / "trust.json"

    def holds(self, worker: NamedWorker) -> bool:
        """Whether all its files are those that the person agreed to."""
        known = self._read()["workers"].get(_key(worker))
        if known is None:
            return False
        digests = file_digests(worker)
        return UNREADABLE not in digests.values() and known == digests

    def add(self, worker: NamedWorker, digests: Mapping[str, str]) -> None:
        """Keep what the person agreed to: the files as they were when it was shown."""
        entries = self._read()
        entries["workers"][_key(worker)] = digests
        replace_file(self._file, json.dumps(entries, indent=2) + "\n", mode=0o600)

    def holds_file(self, path: Path, content: bytes | None = None) -> bool:
        """Whether this file, or this content that was read from it, is what the person agreed to."""
        digest = _digest(path) if content is None else sha256(content).hexdigest()
        return digest != UNREADABLE and self._section("files").get(os.path.realpath(path)) == digest

    def add_file(self, path: Path, content: bytes | None = None) -> None:
        """Keep that the person agreed to this file as it is now, or as it was read."""
        entries, digest = self._read(), _digest(path) if content is None else sha256(content).hexdigest()
        entries["files"] = {**self._section("files"), os.path.realpath(path): digest}
        replace_file(self._file, json.dumps(entries, indent=2) + "\n", mode=0o600)

    def holds_folder(self, folder: Path) -> bool:
        """Whether every file in a folder is what the person agreed to, and none has come since."""
        known, files = self._section("files"), list(_tree(folder))
        return bool(files) and all(
            (digest := _digest(file)) != UNREADABLE and known.get(os.path.realpath(file)) == digest for file in files
        )

    def add_folder(self, folder: Path) -> None:
        """Keep that the person agreed to every file in a folder as it is now."""
        entries = self._read()
        digests = {os.path.realpath(file): _digest(file) for file in _tree(folder)}
        entries["files"] = {**self._section("files"), **digests}
        replace_file(self._file, json.dumps(entries, indent=2) + "\n", mode=0o600)

    def trusted(self) -> list[str]:
        """The paths of everything that the person agreed to."""
        return sorted([*self._section("workers"), *self._section("files")])

    def revoke(self, folder: Path) -> list[str]:
        """Forget what lies at a path or below it; returns what that was."""
        entries, place = self._read(), Path(os.path.realpath(folder))
        gone = [path for path in self.trusted() if Path(path).is_relative_to(place)]
        for name in ("workers", "files"):
            entries[name] = {path: kept for path, kept in self._section(name).items() if path not in gone}
        if gone:
            replace_file(self._file, json.dumps(entries, indent=2) + "\n", mode=0o600)
        return gone

    def _section(self, name: str) -> dict[str, Any]:
        found = self._read().get(name)
        return found if isinstance(found, dict) else {}

    def pins(self, key: str) -> dict[str, Any]:
        """What was approved under a key, by name."""
        pinned = self._section("pins").get(key)
        return {name: pin for name, pin in pinned.items() if isinstance(pin, dict)} if isinstance(pinned, dict) else {}

    def pin(self, key: str, name: str, value: Mapping[str, Any]) -> None:
        """Keep what was approved."""
        entries = self._read()
        entries["pins"] = {**self._section("pins"), key: {**self.pins(key), name: value}}
        replace_file(self._file, json.dumps(entries, indent=2) + "\n", mode=0o600)

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, ValueError, RecursionError):
            entries = json.loads(self._file.read_bytes())
            if isinstance(entries, dict):
                known = {"workers": entries.get("workers", {}), "files": entries.get("files", {})}
                if all(isinstance(each, dict) for each in known.values()):
                    return {**entries, "workers": known["workers"]}
        return {"workers": {}}


def _key(worker: NamedWorker) -> str:
    return os.path.realpath(worker.path)


def file_digests(worker: NamedWorker) -> dict[str, str]:
    """The hash of every file that a worker can consist of, by its path from the folder of the workers.

    These are all files in that folder, and what the worker and its child workers name elsewhere.
    """
    files = set(_tree(worker.root))
    with suppress(ForgeError, OSError):  # whoever loads it says what is wrong with it
        files |= worker_files(load_worker(worker.path))
    return {os.path.relpath(path, worker.root): _digest(path) for path in sorted(files)}


def worker_digest(worker: Worker) -> str:
    """The hash of a worker with everything that it names: its code, its schema, its child workers."""
    files = sorted({path.resolve() for path in worker_files(worker)})
    known = [(os.path.relpath(path, worker.folder), _digest(path)) for path in files]
    return sha256(json.dumps(known).encode()).hexdigest()


def worker_files(worker: Worker) -> set[Path]:
    """Every file that a worker and its child workers name, with the modules that their code imports."""
    return {path for each in with_children(worker) for path in _named_files(each)}


def _tree(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, followlinks=False):
        yield from (path for name in folders if (path := Path(place, name)).is_symlink())  # what is behind is not known
        folders[:] = [name for name in folders if name != SKIPPED]
        yield from (Path(place, name) for name in names)


def with_children(worker: Worker) -> Iterator[Worker]:
    """A worker, and all workers that it and its children may call."""
    seen, waiting = set[Path](), [worker]
    while waiting:
        each = waiting.pop()
        if each.path not in seen:
            seen.add(each.path)
            yield each
            for entry in allowed_by(each.config.toolsets.get("workers")):
                with suppress(ForgeError, OSError):
                    waiting.append(find_allowed(each.folder, entry, None))


def _named_files(worker: Worker) -> Iterator[Path]:
    yield worker.path
    for entry in worker.config.plugins:
        path = worker.folder / entry
        yield from imported_beside(path) if path.suffix == ".py" else _tree(path)
    if "skills" in worker.config.toolsets:
        yield from _tree(worker.folder / "skills")
    if isinstance(worker.config.output_schema, str):
        yield worker.folder / worker.config.output_schema
    for section in worker.config.toolsets.values():
        for part in section if isinstance(section, list) else [section]:
            module = part.get("module") if isinstance(part, Mapping) else None
            if isinstance(module, str):
                yield from imported_beside(worker.folder / module)


def _digest(path: Path) -> str:
    try:
        return sha256(read_regular(path)).hexdigest()
    except OSError:
        return UNREADABLE
