"""Masks over files that may hold secrets: a command finds them, empty, and it is known which of them it opened."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from forge_cli.sandbox.isolation.confinement import Reach, ReachRule
from forge_cli.sandbox.protected import is_secret

MASKED_AT_MOST, INSIDE_AT_MOST = 200, 20_000
"""Files and folders that are masked, each by a mount, and entries below these folders."""
NAMES_AT_MOST = 2_000
RUNTIME = "/run/user"
"""The folder of each user's services: sockets, and files with passwords of the session."""
_SETTLED = 100_000_000
"""Nanoseconds after which a change of a folder shows in its time on every file system."""
_IN_OPEN, _IN_NONBLOCK, _IN_CLOEXEC = 0x20, 0o4000, 0o2000000
_EVENT = struct.Struct("iIII")


class TooManySecrets(Exception):
    """More files may hold secrets than can be masked."""


class Masks:
    """Stand-ins for secrets: files of the same size with nothing in them, whose opening the kernel reports."""

    def __init__(self, folder: Path) -> None:
        """Keep the stand-ins in a folder, which must not exist; an OSError where the kernel reports nothing."""
        folder.mkdir(mode=0o700)
        self.rules: list[ReachRule] = []
        """Mounts over all others, for ``Confined.covers``."""
        self._folder = folder
        self._names: dict[int, str] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._checked(self._libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC))

    def add(self, secret: Path) -> None:
        """Mask a file, or a folder with all that is in it."""
        stand_in = self._folder / str(len(self.rules))
        self._make_like(stand_in, secret)
        self.rules.append(ReachRule(secret, Reach.PROTECTED, source=stand_in))

    def add_names(self, around: Path) -> None:
        """Show the names below a folder that is hidden otherwise; of what cannot be listed only its own."""
        stand_in = self._folder / str(len(self.rules))
        waiting = [(str(stand_in), str(around))]
        left = NAMES_AT_MOST
        while waiting:
            copy, folder = waiting.pop()
            os.mkdir(copy, 0o755)
            self._watch(copy, folder)
            for name, is_folder in _listed(folder)[:left]:
                left -= 1
                if is_folder:
                    waiting.append((f"{copy}/{name}", f"{folder}/{name}"))
                else:
                    os.link(self._empty, f"{copy}/{name}")
        self.rules.append(ReachRule(around, Reach.PROTECTED, source=stand_in))

    def opened(self) -> list[str]:
        """Return the secrets that somebody opened until now, each once, by the paths they were added with."""
        found: dict[str, None] = {}
        while True:
            try:
                data = os.read(self._queue, 65536)
            except BlockingIOError:
                return list(found)
            at = 0
            while at < len(data):
                watch, _, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                # the kernel reports a watch of no file when it dropped events
                found[self._names.get(watch, "files that may hold secrets")] = None

    def close(self) -> None:
        os.close(self._queue)

    def _make_like(self, stand_in: Path, path: Path) -> None:
        info = path.lstat()
        if stat.S_ISDIR(info.st_mode):
            self._make_folder(stand_in, path)
            return
        with open(stand_in, "xb") as file:
            file.truncate(info.st_size if stat.S_ISREG(info.st_mode) else 0)
        stand_in.chmod(0o555 if info.st_mode & 0o111 else 0o444)
        os.utime(stand_in, ns=(info.st_mtime_ns, info.st_mtime_ns))
        self._watch(stand_in, path)

    def _make_folder(self, stand_in: Path, path: Path) -> None:
        """Give a folder all its names: looking for one that is missing would be reported by nothing."""
        waiting = [(str(stand_in), str(path))]
        left = INSIDE_AT_MOST
        while waiting:
            copy, folder = waiting.pop()
            os.mkdir(copy, 0o755)
            self._watch(copy, path)  # which reports its files as well
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((f"{copy}/{entry.name}", entry.path))
                    else:
                        os.link(self._empty, f"{copy}/{entry.name}")
            if left < 0:
                raise TooManySecrets(
                    f"{path} has more than {INSIDE_AT_MOST} files, which may hold secrets"
                )

    @cached_property
    def _empty(self) -> str:
        """An empty file that can be started, since a program is one of the files in a folder."""
        path = str(self._folder / "empty")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o555))
        return path

    def _watch(self, stand_in: Path | str, secret: Path | str) -> None:
        number = self._libc.inotify_add_watch(
            self._queue, os.fsencode(stand_in), ctypes.c_uint32(_IN_OPEN)
        )
        self._names[self._checked(number)] = str(secret)

    def _checked(self, number: int) -> int:
        if number < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return number


def new_masks(secrets: Iterable[Path], folder: Path) -> Masks:
    """Mask these, and what services keep for users, until the masks are closed; ``folder`` is made, to be removed then.

    TooManySecrets says that they are too many, an OSError that they cannot be watched.
    """
    found = list(dict.fromkeys(secrets))
    if len(found) > MASKED_AT_MOST:
        raise TooManySecrets(
            f"the zones have more than {MASKED_AT_MOST} files that may hold secrets"
        )
    masks = Masks(folder)
    try:
        for secret in found:
            masks.add(secret)
        if os.path.isdir(RUNTIME):
            masks.add_names(Path(RUNTIME))
    except BaseException:
        masks.close()
        raise
    return masks


@contextmanager
def mask_secrets(secrets: Iterable[Path], folder: Path) -> Iterator[Masks]:
    """Mask these for as long as the context lasts, as ``new_masks`` does; ``folder`` is removed again."""
    try:
        masks = new_masks(secrets, folder)
        try:
            yield masks
        finally:
            masks.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listed(folder: str) -> list[tuple[str, bool]]:
    """The names in a folder, and which are folders; nothing of other file systems, which may never answer."""
    try:
        own = os.lstat(folder).st_dev
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        return [
            (name, is_folder)
            for name, is_folder in found
            if not is_folder or _is_near(folder, name, own)
        ]
    except OSError:
        return []


def _is_near(folder: str, name: str, device: int) -> bool:
    try:
        return folder == RUNTIME or os.lstat(f"{folder}/{name}").st_dev == device
    except OSError:
        return False


class SecretScan:
    """Finds names of secrets below folders that other scans do not enter; what has not changed is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Sequence[str], Sequence[str]]] = {}

    def secrets(self, folder: str) -> Iterator[str]:
        """Return the paths of files and folders that may hold secrets, at any depth; nothing for what is no folder."""
        waiting = [folder]
        while waiting:
            path = waiting.pop()
            try:
                info = os.lstat(path)
                if not stat.S_ISDIR(info.st_mode):
                    continue
                folders, found = self._look(path, (info.st_dev, info.st_ino, info.st_ctime_ns))
            except OSError:
                continue
            yield from found
            waiting += folders

    def _look(self, path: str, stamp: tuple[int, int, int]) -> tuple[Sequence[str], Sequence[str]]:
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1], known[2]
        folders: list[str] = []
        found: list[str] = []
        begun = time.time_ns()
        with os.scandir(path) as entries:
            for entry in entries:
                if is_secret(entry.name):
                    found.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
        if begun - stamp[2] > _SETTLED:
            self._known[path] = (stamp, folders, found)
        return folders, found
