"""A host of items: a process of its own on whichever machine it is made, with a folder that stands for forge's home."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import gettempdir, mkdtemp
from typing import Self

from forge_cli.core.errors import ForgeError
from forge_cli.engine.batch.parcel import SETTINGS, read_parcel
from forge_cli.files.home import forge_home
from forge_cli.files.lock import acquire, locked

PIECE = 0.2
"""Seconds for which lines are collected before they are delivered together."""
GRACE = 10.0
ERROR_CHARACTERS = 400
MODULE = "forge_cli.apps.batch.child"
PARCEL, HOME, FILES, ERRORS, IN_USE = "parcel", "home", "files", "errors", "in-use"
FOLDER, UNFINISHED = "forge-items-", "forge-made-"
OWN = frozenset({"sessions", SETTINGS})
"""The own parts of a host; everything else is that of the machine."""

Deliver = Callable[[Sequence[str]], object]


class ItemHost:
    """Works on items of a batch; threads of it ``deliver`` what happens, in order, to the process that started it.

    ``take`` gets what ``RemoteWork`` answers. When this process dies, so does the host, with everything it started.
    """

    def __init__(self, parcel: bytes, deliver: Deliver) -> None:
        self._deliver = deliver
        _remove_left_folders()
        self._in_use: int | None
        self._folder, self._in_use = _make_folder(parcel)
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
                pass_fds=(self._in_use,),
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
        with self._lock:
            lock, self._in_use = self._in_use, None
        if lock is not None:
            os.close(lock)

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
                    if (said := json.loads(piece))["type"] == "end" and (ended := self._ends.get(said["run"])):
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


def _remove_left_folders() -> None:
    """Remove what hosts left that were killed; one that is at work, and its process, have theirs locked."""
    for folder in Path(gettempdir()).glob(f"{FOLDER}*"):
        with suppress(OSError):
            info = folder.lstat()
            if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid():
                with locked(folder / IN_USE, wait=False, create=False):
                    shutil.rmtree(folder, ignore_errors=True)


def _make_folder(parcel: bytes) -> tuple[Path, int]:
    """The folder of the process, and its lock: the worker's files, and the machine's home with sessions of its own."""
    made = Path(mkdtemp(prefix=UNFINISHED)).resolve()
    lock = acquire(made / IN_USE)
    folder = made.rename(made.with_name(FOLDER + made.name.removeprefix(UNFINISHED)))  # locked from the first moment
    (folder / PARCEL).write_bytes(parcel)
    content = read_parcel(parcel)
    content.write(folder / FILES)
    home = folder / HOME
    home.mkdir(mode=0o700)
    with suppress(OSError):
        for entry in forge_home().iterdir():
            if entry.name not in OWN:
                (home / entry.name).symlink_to(entry)
    if content.settings is not None:
        (home / SETTINGS).write_bytes(content.settings)
    return folder, lock
