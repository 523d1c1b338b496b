"""Items on other machines: the parcel that they need, and the host that runs them."""

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
PASSED_VARIABLES = ("FORGE_LOAD_PLUGINS",)
"""Environment variables that restrict what runs on any machine."""
_SCRIPT = "script:"
DELIVERY_INTERVAL = 0.2
"""Seconds for which lines are collected to be delivered together."""
CLOSE_TIMEOUT = 10.0
"""Seconds that a host process has to end by itself."""
ERROR_CHARACTERS = 400
"""The most characters of its last output in the error for an item."""
MODULE = "forge_cli.apps.batch.child"
PARCEL, HOME, FILES, ERRORS = "parcel", "home", "files", "errors"
OWN_ENTRIES = frozenset({"sessions", SETTINGS})
"""The parts of a host's home that are its own; all others are links to the home of the machine."""

Deliver = Callable[[Sequence[str]], object]


class ShippedFile(Struct, frozen=True):
    """The content and mode of a file."""

    content: bytes
    mode: int


class Parcel(Struct, frozen=True, kw_only=True):
    """Everything that another machine gets; it contains no keys."""

    work: RunOptions
    """The options of the batch; its worker is a path in ``files``."""
    files: Mapping[str, ShippedFile]
    settings: bytes | None
    """The config of the user who started the batch, whose rules apply on every machine."""
    environ: Mapping[str, str]
    folder: str
    """The folder in which forge was started; items run there if the other machine has it."""
    needs: Mapping[str, str]
    """The packages that must be installed there, with their versions."""
    budget: Limits
    concurrency: int

    def write(self, folder: Path) -> RunOptions:
        """Write the files below a folder, and return the options with the worker there."""
        for name, file in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.content)
            path.chmod(file.mode)
        return replace(self.work, worker=str(folder / self.work.worker))


def pack(
    work: RunOptions, worker: Worker, host: PluginHost, budget: Limits, concurrency: int
) -> bytes:
    """Return the parcel of a batch; raise ForgeError if a file contains a key."""
    settings = _settings()
    files = {path: read_regular(path) for path in sorted(_files(worker, host))}
    _refuse_keys({**files, forge_home() / SETTINGS: settings or b""})
    root = Path(os.path.commonpath([path.parent for path in files]))
    model = work.model or None
    if model is None and not worker.config.model:
        model = os.environ.get("FORGE_MODEL")
    place = Path(os.path.abspath(worker.path)).relative_to(root)
    parcel = Parcel(
        work=replace(work, worker=str(place), model=model),
        # At least readable by its owner, whatever the mode is here.
        files={
            str(path.relative_to(root)): ShippedFile(content, path.stat().st_mode & 0o777 | 0o400)
            for path, content in files.items()
        },
        settings=settings,
        environ={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
        folder=os.getcwd(),
        needs=_needs(worker, host, model),
        budget=budget.model_copy(update={"max_turns": None}),  # each item has its own
        concurrency=concurrency,
    )
    return pickle.dumps(parcel)


def read_parcel(data: bytes) -> Parcel:
    """Return the content of a parcel from a machine with the same version of forge."""
    # Pickle can run any code, and so can the sender: the worker and its tools are in the parcel.
    return cast(Parcel, pickle.loads(data))  # noqa: S301


def missing_here(data: bytes) -> list[str]:
    """Return a sentence for each requirement of a parcel that this machine does not meet."""
    parcel = read_parcel(data)
    with TemporaryDirectory(prefix="forge-check-") as folder:
        work = parcel.write(Path(folder))
        worker = load_worker(work.worker)
        here = _needs(worker, work.host(worker), work.model)
    problems: list[str] = []
    for name, version in parcel.needs.items():
        found = here.get(name)
        if not found:
            problems.append(f"{name} is missing")
        elif found != version:
            problems.append(f"{name} is {found} instead of {version}")
    return problems


def _files(worker: Worker, host: PluginHost) -> Iterator[Path]:
    named = {*worker_files(worker), *protected_files(worker, host), *_scripts(worker)}
    for path in {Path(os.path.abspath(path)) for path in named}:
        if path.is_file():
            yield path
            continue
        for each in path.rglob("*"):
            if each.is_file() and not {SKIPPED, ".git"}.intersection(each.parts):
                yield each


def _scripts(worker: Worker) -> Iterator[Path]:
    """Yield the scripts that replace a model."""
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
    """Raise WorkerError if a file contains a key; each machine has its own keys."""
    redactor = own_redactor()
    for path, content in files.items():
        if redactor.knows(content.decode("utf-8", "replace")):
            hint = "use an environment variable, which the other machines need as well"
            raise WorkerError(
                Mark(str(path)), "this file contains a key and would be sent", hint=hint
            )


def _needs(worker: Worker, host: PluginHost, model: str | None) -> dict[str, str]:
    needs = {OWN: __version__}
    for each in with_children(worker):
        for name in each.config.toolsets:
            with suppress(ForgeError):  # reported when the worker is opened
                cls, plugin = host.beside(each).toolset(name)
                needs |= _installed(plugin)
                for config in NamedToolset(each, name, cls, plugin).configs:
                    needs |= cls.machine_needs(config, forge_home())
        needs |= _provider(each.config.model, host.beside(each))
    return needs | _provider(model, host)


def _provider(model: Any, host: PluginHost) -> dict[str, str]:
    name = ""
    if model:
        name = load_settings(forge_home(), Path.cwd()).resolve(model)
    wanted = f"{MODEL}{name.partition(':')[0]}"
    for plugin in host.model_plugins():
        if plugin.name == wanted:
            return _installed(plugin)
    return {}


def _installed(plugin: Plugin) -> dict[str, str]:
    if plugin.distribution == OWN or isinstance(plugin, LocalPlugin):
        return {}
    return {plugin.distribution: plugin.version}


class ItemHost:
    """A process that runs items of a batch; ``deliver`` gets its messages in order, from a thread.

    ``take`` passes on messages of ``RemoteWork``. The process ends with this one, and ends all its
    children.
    """

    def __init__(self, parcel: bytes, deliver: Deliver) -> None:
        self._deliver = deliver
        self._folder = _make_folder(parcel)
        content = read_parcel(parcel)
        environ = {**os.environ, **content.environ, "FORGE_HOME": str(self._folder / HOME)}
        with (self._folder / ERRORS).open("wb") as errors:
            # With -P, Python imports no module from the working directory. In a session of its
            # own, the process gets no Ctrl-C: the batch ends it in order.
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
        self._has_ended = False
        self._last_words = ""
        for work in (self._read, self._send):
            threading.Thread(target=work, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def take(self, message: str) -> None:
        """Pass on a message of the process that started the batch."""
        # The process may have ended, which ``_read`` notices.
        with self._lock, suppress(OSError, ValueError):
            if self._process.stdin:
                self._process.stdin.write(message.encode() + b"\n")
                self._process.stdin.flush()

    def perform(self, order: str) -> None:
        """Run the item of an order until its end is delivered.

        Raise ForgeError if the host process ends.
        """
        run = json.loads(order)["run"]
        ended = self._ends[run] = threading.Event()
        if not self._has_ended:
            self.take(order)
            ended.wait()
        del self._ends[run]
        if self._has_ended:
            raise ForgeError(f"the process that worked on it has ended{self._last_words}")

    def close(self) -> None:
        """End the process; the work on its items is lost."""
        with self._lock, suppress(OSError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(CLOSE_TIMEOUT)
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
        """Deliver messages until the process ends, or a delivery fails."""
        last = False
        try:
            while not last:
                pieces, last = self._collect()
                if pieces:
                    self._deliver(pieces)
                for piece in pieces:
                    said = json.loads(piece)
                    ended = None
                    if said["type"] == "end":
                        ended = self._ends.get(said["run"])
                    if ended:
                        ended.set()
        finally:
            self._has_ended = True
            for ended in list(self._ends.values()):
                ended.set()
            # A delivery failed, so the results of further work would be lost.
            if not last:
                self.close()

    def _collect(self) -> tuple[list[str], bool]:
        """Return the messages of a moment, and whether the process has ended.

        Urgent ones do not wait.
        """
        pieces: list[str] = []
        until = time.monotonic() + DELIVERY_INTERVAL
        piece = self._out.get()
        while piece is not None:
            pieces.append(piece)
            wait = 0.0 if _is_urgent(piece) else max(0.0, until - time.monotonic())
            try:
                piece = self._out.get(block=wait > 0, timeout=wait)
            except Empty:
                return pieces, False
        return pieces, True


def _is_urgent(piece: str) -> bool:
    said = json.loads(piece)
    return said["type"] == "end" or bool(said["waits"])


def _make_folder(parcel: bytes) -> Path:
    """Make the folder of the process: the worker's files, and a home with sessions of its own."""
    folder = Path(mkdtemp(prefix="forge-items-")).resolve()
    (folder / PARCEL).write_bytes(parcel)
    content = read_parcel(parcel)
    content.write(folder / FILES)
    home = folder / HOME
    home.mkdir(mode=0o700)
    with suppress(OSError):
        for entry in forge_home().iterdir():
            if entry.name not in OWN_ENTRIES:
                (home / entry.name).symlink_to(entry)
    if content.settings is not None:
        (home / SETTINGS).write_bytes(content.settings)
    return folder
