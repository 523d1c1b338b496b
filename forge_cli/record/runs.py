"""Sessions in the background: how each was started, its messages, and what was looked at."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from forge_cli.core.wire import Unreadable, read, wire
from forge_cli.files.home import make_private
from forge_cli.files.lock import hold_file_lock
from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file
from forge_cli.record.places import session_file
from forge_cli.record.socket_files import SOCKET, run_folder

ENTRY, OUTPUT, MESSAGES, LOCK = ".json", ".out", ".messages", ".lock"
LOOKED = "looked"
"""The file with the time at which ended sessions were last shown."""
MAX_TASK = 1000
"""Characters of the task in an entry."""


class BackgroundRun(Struct, frozen=True):
    """A session that was started in the background, and how to start it again."""

    session: str
    worker: str
    task: str
    started: str
    command: tuple[str, ...]
    """The arguments of ``forge`` that resume the session, without a task."""
    folder: str
    """The working directory of the command."""
    stopped: bool = False
    """True if a person stopped it, so that it is not resumed with all others."""
    queued: bool = False
    """True while it waits for other sessions to end."""

    @property
    def log(self) -> Path:
        return session_file(self.session)

    @property
    def output(self) -> Path:
        """The file with everything that the process prints."""
        return run_folder() / f"{self.session}{OUTPUT}"

    def write(self) -> None:
        """Write the entry durably."""
        make_private(run_folder())
        text = json.dumps(wire(self), ensure_ascii=False)
        replace_file(run_folder() / f"{self.session}{ENTRY}", text, mode=0o600)


def background_run(session: str) -> BackgroundRun | None:
    """Return the entry of a session, or None if it never was in the background."""
    try:
        found = json.loads(read_regular(run_folder() / f"{session}{ENTRY}"))
        return read(BackgroundRun, found)
    except (OSError, ValueError, Unreadable, RecursionError):
        return None


def background_runs() -> dict[str, BackgroundRun]:
    """Return all entries by session."""
    try:
        names = os.listdir(run_folder())
    except OSError:
        return {}
    found: dict[str, BackgroundRun] = {}
    for name in names:
        if name.endswith(ENTRY) and (run := background_run(name.removesuffix(ENTRY))):
            found[run.session] = run
    return found


def remove_run(session: str) -> None:
    """Remove everything about a session in the background, when the session is deleted."""
    for ending in (ENTRY, OUTPUT, MESSAGES, SOCKET, f"{MESSAGES}{LOCK}"):
        with suppress(OSError):
            (run_folder() / f"{session}{ending}").unlink()


# --- messages for the next turn


class WaitingMessages:
    """The messages that wait for a session, kept on disk until the session has recorded them."""

    def __init__(self, session: str) -> None:
        self._file = run_folder() / f"{session}{MESSAGES}"

    def add(self, text: str) -> None:
        """Keep a message durably."""
        with self._locked():
            self._write([*self.all(), text])

    def all(self) -> list[str]:
        """Return the messages, the oldest first."""
        try:
            found = json.loads(read_regular(self._file))
        except (OSError, ValueError, RecursionError):
            return []
        if not isinstance(found, list):
            return []
        return [text for text in found if isinstance(text, str)]

    def drop_first(self) -> None:
        """Forget the oldest message, because the session has recorded it."""
        with self._locked():
            self._write(self.all()[1:])

    def clear(self) -> None:
        """Forget all messages."""
        with self._locked():
            self._write([])

    def _write(self, texts: list[str]) -> None:
        if texts:
            replace_file(self._file, json.dumps(texts), mode=0o600)
        else:
            self._file.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_private(self._file.parent)
        with hold_file_lock(f"{self._file}{LOCK}"):
            yield


# --- what the person has seen


def looked_at() -> str:
    """Return the time until which ended sessions were shown, or an empty text."""
    try:
        return read_regular(run_folder() / LOOKED).decode(errors="replace").strip()
    except OSError:
        return ""


def note_look() -> None:
    """Note that all sessions that have ended so far were shown."""
    with suppress(OSError):
        make_private(run_folder())
        replace_file(run_folder() / LOOKED, now(), mode=0o600)


def now() -> str:
    """Return the time in the format of a record."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
