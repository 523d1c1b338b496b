"""The user's trust in workers, files and MCP tools, bound to their content."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.files.allowed import allowed_by, find_allowed
from forge_cli.files.home import make_private
from forge_cli.files.lock import hold_file_lock
from forge_cli.files.lookup import NamedWorker
from forge_cli.files.places import read_kept, whole_file
from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file
from forge_cli.files.sources import imported_beside
from forge_cli.files.worker import Worker, load_worker

SKIPPED = "__pycache__"
UNREADABLE = "unreadable"
_MAX_KEPT = 256 * 1024
"""The most bytes of a trusted file that are kept, to show later changes."""
SECTIONS = ("workers", "files", "pins")
_NO_TRUST = "this is not a file of trust"
_TRUST_AGAIN = "move it away, and trust again what you have read with forge trust"


class TrustError(ForgeError):
    """Something that forge loads from a folder is not trusted."""

    exit_code = ExitCode.UNTRUSTED


class TrustStore:
    """The file ``trust.json`` in forge's home; an unreadable file is never overwritten."""

    def __init__(self, home: Path) -> None:
        self._file = home / "trust.json"
        self._kept = home / "trusted"

    def holds(self, worker: NamedWorker) -> bool:
        """Return True if all files of a worker are trusted in their current state."""
        known = self._known("workers").get(_key(worker))
        if known is None:
            return False
        digests = file_digests(worker)
        return UNREADABLE not in digests.values() and known == digests

    def add(self, worker: NamedWorker, digests: Mapping[str, str]) -> None:
        """Trust the files of a worker in the state that was shown."""
        with self._changing() as entries:
            entries["workers"][_key(worker)] = digests
        for name, digest in digests.items():
            # Without the old text, a later change is reported by file names only.
            with suppress(OSError):
                content = (worker.root / name).read_bytes()
                # The file may have changed since it was shown; that text was not trusted.
                if sha256(content).hexdigest() == digest:
                    self._keep(digest, content)

    def changes(self, worker: NamedWorker) -> dict[str, str | None]:
        """Return the changed files with their trusted text, if it was kept."""
        known: Mapping[str, str] = self._known("workers").get(_key(worker)) or {}
        now = file_digests(worker)
        if not known:
            return {}
        names = sorted({name for name, _ in known.items() ^ now.items()})
        return {name: self._text(known.get(name)) for name in names}

    def holds_file(self, path: Path, content: bytes | None = None) -> bool:
        """Return True if a file, or this content of it, is trusted."""
        digest = _digest(path) if content is None else sha256(content).hexdigest()
        return digest != UNREADABLE and self._known("files").get(os.path.realpath(path)) == digest

    def differing(self, files: Mapping[Path, bytes]) -> list[Path]:
        """Return the files whose content is not trusted."""
        known = self._known("files") if files else {}
        return [
            path
            for path in files
            if known.get(os.path.realpath(path)) != sha256(files[path]).hexdigest()
        ]

    def add_file(self, path: Path, content: bytes | None = None) -> None:
        """Trust a file in its current state, or with this content."""
        digest = _digest(path) if content is None else sha256(content).hexdigest()
        with self._changing() as entries:
            entries["files"][os.path.realpath(path)] = digest
        if content is not None:
            self._keep(digest, content)

    def kept_text(self, path: Path) -> str | None:
        """Return the trusted content of a file, to show what changed."""
        return self._text(self._known("files").get(os.path.realpath(path)))

    def _keep(self, digest: str, content: bytes) -> None:
        if len(content) <= _MAX_KEPT:
            replace_file(self._kept / digest, content, mode=0o600)

    def _text(self, digest: object) -> str | None:
        if not isinstance(digest, str):
            return None
        try:
            return (self._kept / digest).read_bytes().decode(errors="replace")
        except OSError:
            return None

    def holds_folder(self, folder: Path) -> bool:
        """Return True if every file in a folder is trusted, and none was added."""
        known = self._known("files")
        files = list(_tree(folder))
        for file in files:
            digest = _digest(file)
            if digest == UNREADABLE or known.get(os.path.realpath(file)) != digest:
                return False
        return bool(files)

    def trusted(self) -> list[str]:
        """Return the paths of everything trusted."""
        entries = self._read()
        return sorted([*entries["workers"], *entries["files"]])

    def revoke(self, folder: Path) -> list[str]:
        """Revoke trust at and below a path; return the affected paths."""
        place = Path(os.path.realpath(folder))
        gone = [path for path in self.trusted() if Path(path).is_relative_to(place)]
        if gone:
            with self._changing() as entries:
                for path in gone:
                    entries["workers"].pop(path, None)
                    entries["files"].pop(path, None)
        return gone

    def pins(self, key: str) -> dict[str, Any]:
        """Return the approved entries of a key by name; raise an error for an invalid file."""
        pinned = self._read()["pins"].get(key)
        if not isinstance(pinned, dict):
            return {}
        return {name: pin for name, pin in pinned.items() if isinstance(pin, dict)}

    def pin(self, key: str, name: str, value: Mapping[str, Any]) -> None:
        """Store an approved entry."""
        with self._changing() as entries:
            entries["pins"][key] = {**self.pins(key), name: value}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """Lock all entries, and write them afterwards."""
        make_private(self._file.parent)
        with hold_file_lock(self._file.with_name(".trust.lock")):
            entries = self._read()
            yield entries
            kept = {name: entry for name, entry in entries.items() if entry or name not in SECTIONS}
            replace_file(self._file, json.dumps(kept, indent=2) + "\n", mode=0o600)

    def _known(self, section: str) -> dict[str, Any]:
        try:
            entries: dict[str, Any] = self._read()[section]
        except ForgeError:
            return {}
        return entries

    def _read(self) -> dict[str, Any]:
        entries = read_kept(self._file, _NO_TRUST, _TRUST_AGAIN)
        found = {name: entries.get(name, {}) for name in SECTIONS}
        for name, section in found.items():
            if not isinstance(section, dict):
                problem = f"{_NO_TRUST}: '{name}' is not an object"
                raise whole_file(self._file, problem, hint=_TRUST_AGAIN)
        return {**entries, **found}


def _key(worker: NamedWorker) -> str:
    return os.path.realpath(worker.path)


def file_digests(worker: NamedWorker) -> dict[str, str]:
    """Return the hash of each file that a worker can consist of, by relative path.

    These are all files in its folder, and those that the worker and its child workers name
    elsewhere.
    """
    files = set(_tree(worker.root))
    with suppress(ForgeError, OSError):  # reported where it is loaded
        loaded = load_worker(worker.path)
        files |= {*worker_files(loaded), *server_code(loaded)}
    # Not lock files, which contain hashes of the others.
    kept = [path for path in sorted(files) if path.suffix != ".lock"]
    return {os.path.relpath(path, worker.root): _digest(path) for path in kept}


def worker_digest(worker: Worker) -> str:
    """Return the hash of a worker with its code, schema and child workers."""
    files = sorted({path.resolve() for path in worker_files(worker)})
    known = [(os.path.relpath(path, worker.folder), _digest(path)) for path in files]
    return sha256(json.dumps(known).encode()).hexdigest()


def worker_files(worker: Worker) -> set[Path]:
    """Return all files that a worker and its child workers name, with imported modules."""
    return set(chain.from_iterable(map(named_files, with_children(worker))))


def content_of(worker: Worker) -> dict[Path, bytes | None]:
    """Return these files with their content; None for a path that is not a file."""
    files = sorted({*worker_files(worker), *server_code(worker)})
    found: dict[Path, bytes | None] = {}
    for file in files:
        found[file] = file.read_bytes() if file.is_file() else None
    return found


def server_code(worker: Worker) -> set[Path]:
    """Return the local code of the MCP servers that a worker and its child workers define."""
    found: set[Path] = set()
    for each in with_children(worker):
        from forge_cli.files.mcp import defined_in

        base = each.folder
        for above in each.folder.parents:
            if above.name == ".forge":
                base = above.parent
                break
        for part in each.sections_of("mcp"):
            for server in defined_in(part.get("servers")).values():
                if server.command:
                    from forge_cli.files.started import content_of_code

                    argv = [server.command, *server.args]
                    found.update(content_of_code(argv, base, server.env))
    return found


def _tree(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder, followlinks=False):
        # The target of a link to a folder can change without notice, so the link itself counts.
        for name in folders:
            if Path(place, name).is_symlink():
                yield Path(place, name)
        folders[:] = [name for name in folders if name != SKIPPED]
        yield from (Path(place, name) for name in names)


def with_children(worker: Worker) -> Iterator[Worker]:
    """Yield a worker and all workers that it and its children may call."""
    seen: set[Path] = set()
    waiting = [worker]
    while waiting:
        each = waiting.pop(0)
        if each.path not in seen:
            seen.add(each.path)
            yield each
            for entry in allowed_by(each.config.toolsets.get("workers")):
                with suppress(ForgeError, OSError):
                    waiting.append(find_allowed(each.folder, entry, None))


def named_files(worker: Worker) -> Iterator[Path]:
    """Yield the files that a worker names."""
    yield worker.path
    for entry in worker.config.plugins:
        path = worker.folder / entry
        if path.suffix == ".py":
            yield from imported_beside(path)
        else:
            yield from _tree(path)
    if "skills" in worker.config.toolsets:
        yield from _tree(worker.folder / "skills")
    if isinstance(worker.config.output_schema, str):
        yield worker.folder / worker.config.output_schema
    for module in worker.modules:
        yield from imported_beside(module)


def _digest(path: Path) -> str:
    try:
        return sha256(read_regular(path)).hexdigest()
    except OSError:
        return UNREADABLE
