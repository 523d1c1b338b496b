"""Items on another machine: the parcel with all that goes there, and the host, a process that works on them."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Self, cast

from msgspec import Struct

from forge_cli import __version__
from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.source import OWN
from forge_cli.engine.gate.toolbox import NamedToolset
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.local import LocalPlugin
from forge_cli.engine.plugins.scan import MODEL, Plugin
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.prepared import protected_files
from forge_cli.files.home import forge_home
from forge_cli.files.regular import read_regular
from forge_cli.files.settings_files import load_settings
from forge_cli.files.trust import SKIPPED, with_children, worker_files
from forge_cli.files.worker import Limits, Worker, load_worker
from forge_cli.sandbox.secrets import own_redactor

SETTINGS = "config.yaml"
PASSED_ON = ("FORGE_LOAD_PLUGINS",)
"""Variables that restrict what runs, wherever it does."""
_SCRIPT = "script:"
PIECE = 0.2
"""Seconds for which lines are collected before they are delivered together."""
GRACE = 10.0
ERROR_CHARACTERS = 400
MODULE = "forge_cli.apps.batch.child"
PARCEL, HOME, FILES, ERRORS = "parcel", "home", "files", "errors"
HOSTS_OWN = frozenset({"sessions", SETTINGS})
"""The own parts of a host; everything else is that of the machine."""

Deliver = Callable[[Sequence[str]], object]


class ShippedFile(Struct, frozen=True):
    """A file by its content."""

    content: bytes
    mode: int


class Parcel(Struct, frozen=True, kw_only=True):
    """All that goes to another machine; neither keys nor anything else of the environment."""

    work: RunOptions
    """Its worker is a path among ``files``."""
    files: Mapping[str, ShippedFile]
    settings: bytes | None
    """The settings of the user who started the batch: these rules hold on every machine."""
    environ: Mapping[str, str]
    folder: str
    """The folder in which forge was started; items run there as well where another machine has such a folder."""
    needs: Mapping[str, str]
    """Packages that must be installed there, by name, each with its version."""
    budget: Limits
    concurrency: int

    def write(self, folder: Path) -> RunOptions:
        """Put the files below a folder; returns the work with the worker there."""
        for name, file in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            path.chmod(file.mode)
        return replace(self.work, worker=str(folder / self.work.worker))


def pack(
    work: RunOptions, worker: Worker, host: PluginHost, budget: Limits, concurrency: int
) -> bytes:
    """The parcel of a batch; a ForgeError where a key would go along."""
    settings = _settings()
    files = {path: read_regular(path) for path in sorted(_files(worker, host))}
    _refuse_keys({**files, forge_home() / SETTINGS: settings or b""})
    root = Path(os.path.commonpath([path.parent for path in files]))
    model = work.model or (None if worker.config.model else os.environ.get("FORGE_MODEL"))
    place = Path(os.path.abspath(worker.path)).relative_to(root)
    parcel = Parcel(
        work=replace(work, worker=str(place), model=model),
        files={
            str(path.relative_to(root)): ShippedFile(content, path.stat().st_mode & 0o777 | 0o400)
            for path, content in files.items()
        },
        settings=settings,
        environ={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        folder=os.getcwd(),
        needs=_needs(worker, host, model),
        budget=budget.model_copy(update={"max_turns": None}),  # each item has its own
        concurrency=concurrency,
    )
    return pickle.dumps(parcel)


def read_parcel(data: bytes) -> Parcel:
    """Open what ``pack`` made, on a machine that has the same version of forge."""
    return cast(Parcel, pickle.loads(data))  # noqa: S301  # its sender may run any code here


def missing_here(data: bytes) -> list[str]:
    """Needs of a parcel that this machine lacks, as sentences; none where items can begin."""
    parcel = read_parcel(data)
    with TemporaryDirectory(prefix="forge-check-") as folder:
        work = parcel.write(Path(folder))
        worker = load_worker(work.worker)
        here = _needs(worker, work.host(worker), work.model)
    return [
        f"{name} is {found} instead of {version}"
        if (found := here.get(name))
        else f"{name} is missing"
        for name, version in parcel.needs.items()
        if here.get(name) != version
    ]


def _files(worker: Worker, host: PluginHost) -> Iterator[Path]:
    named = {*worker_files(worker), *protected_files(worker, host), *_scripts(worker)}
    for path in {Path(os.path.abspath(path)) for path in named}:
        if path.is_dir():
            inside = (
                each
                for each in path.rglob("*")
                if SKIPPED not in each.parts and ".git" not in each.parts
            )
            yield from (each for each in inside if each.is_file())
        elif path.is_file():
            yield path


def _scripts(worker: Worker) -> Iterator[Path]:
    """The scripts that stand for a model."""
    for each in with_children(worker):
        if (model := each.config.model or "").startswith(_SCRIPT):
            yield each.folder / model.removeprefix(_SCRIPT)


def _settings() -> bytes | None:
    try:
        return read_regular(forge_home() / SETTINGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WorkerError(
            Mark(str(forge_home() / SETTINGS)), f"it cannot be read: {error.strerror}"
        ) from None


def _refuse_keys(files: Mapping[Path, bytes]) -> None:
    """Keys stay where they are: each machine has its own in its environment."""
    redactor = own_redactor()
    for path, content in files.items():
        if redactor.knows(content.decode("utf-8", "replace")):
            hint = "take it from the environment instead; other machines need it in theirs"
            raise WorkerError(
                Mark(str(path)), "a key stands in this file, which would be sent along", hint=hint
            )


def _needs(worker: Worker, host: PluginHost, model: str | None) -> dict[str, str]:
    needs = {OWN: __version__}
    for each in with_children(worker):
        for name in each.config.toolsets:
            with suppress(ForgeError):  # reported where the worker is opened
                cls, plugin = host.beside(each).toolset(name)
                needs |= _installed(plugin)
                for config in NamedToolset(each, name, cls, plugin).configs:
                    needs |= cls.machine_needs(config, forge_home())
        needs |= _provider(each.config.model, host.beside(each))
    return needs | _provider(model, host)


def _provider(model: Any, host: PluginHost) -> dict[str, str]:
    name = load_settings(forge_home(), Path.cwd()).resolve(model) if model else ""
    wanted = f"{MODEL}{name.partition(':')[0]}"
    return next(
        (_installed(plugin) for plugin in host.model_plugins() if plugin.name == wanted), {}
    )


def _installed(plugin: Plugin) -> dict[str, str]:
    if plugin.distribution == OWN or isinstance(plugin, LocalPlugin):
        return {}
    return {plugin.distribution: plugin.version}


class ItemHost:
    """Works on items of a batch; threads of it ``deliver`` what happens, in order, to the process that started it.

    ``take`` gets what ``RemoteWork`` answers. When this process dies, so does the host, with everything it started.
    """

    def __init__(self, parcel: bytes, deliver: Deliver) -> None:
        self._deliver = deliver
        self._folder = _make_folder(parcel)
        content = read_parcel(parcel)
        environ = {**os.environ, **content.environ, "FORGE_HOME": str(self._folder / HOME)}
        with (self._folder / ERRORS).open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=content.folder if os.path.isdir(content.folder) else self._folder,
                env=environ,
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._out: SimpleQueue[str | None] = SimpleQueue()
        self._ends: dict[int, threading.Event] = {}
        self._gone, self._last_words = False, ""
        for work in (self._read, self._send):
            threading.Thread(target=work, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def take(self, message: str) -> None:
        """Pass on what came from the process that started the batch."""
        with self._lock, suppress(OSError, ValueError):
            if self._process.stdin:
                self._process.stdin.write(message.encode() + b"\n")
                self._process.stdin.flush()

    def perform(self, order: str) -> None:
        """Do the item of an order; returns when its end is delivered, a ForgeError where the host is gone."""
        run = json.loads(order)["run"]
        ended = self._ends[run] = threading.Event()
        if not self._gone:
            self.take(order)
            ended.wait()
        del self._ends[run]
        if self._gone:
            raise ForgeError(f"the process that worked on it has ended{self._last_words}")

    def close(self) -> None:
        """End the process; what it works on is lost."""
        with self._lock, suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._out.put(line.decode())
        self._process.wait()
        with suppress(OSError):
            told = (self._folder / ERRORS).read_text("utf-8", "replace").strip()
            self._last_words = f": {told[-ERROR_CHARACTERS:]}" if told else ""
        self._out.put(None)

    def _send(self) -> None:
        """Deliver pieces until the process has ended, or they are not taken."""
        last = False
        try:
            while not last:
                pieces, last = self._collect()
                if pieces:
                    self._deliver(pieces)
                for piece in pieces:
                    if (said := json.loads(piece))["type"] == "end" and (
                        ended := self._ends.get(said["run"])
                    ):
                        ended.set()
        finally:
            self._gone = True
            for ended in list(self._ends.values()):
                ended.set()
            if not last:
                self.close()

    def _collect(self) -> tuple[list[str], bool]:
        """Events within a moment; those that somebody waits for are not held back."""
        pieces, until = list[str](), time.monotonic() + PIECE
        piece = self._out.get()
        while piece is not None:
            pieces.append(piece)
            wait = 0.0 if _is_urgent(piece) else max(0.0, until - time.monotonic())
            try:
                piece = self._out.get(timeout=wait) if wait else self._out.get_nowait()
            except Empty:
                return pieces, False
        return pieces, True


def _is_urgent(piece: str) -> bool:
    said = json.loads(piece)
    return said["type"] == "end" or bool(said["waits"])


def _make_folder(parcel: bytes) -> Path:
    """The folder of the process: the worker's files, and the machine's home with sessions of its own."""
    folder = Path(mkdtemp(prefix="forge-items-")).resolve()
    (folder / PARCEL).write_bytes(parcel)
    content = read_parcel(parcel)
    content.write(folder / FILES)
    home = folder / HOME
    home.mkdir(mode=0o700)
    with suppress(OSError):
        for entry in forge_home().iterdir():
            if entry.name not in HOSTS_OWN:
                (home / entry.name).symlink_to(entry)
    if content.settings is not None:
        (home / SETTINGS).write_bytes(content.settings)
    return folder
