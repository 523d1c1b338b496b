"""Masks over files that may hold secrets: commands see empty files, with reports."""

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

MAX_MASKED = 200
"""Files and folders that are masked, each with a mount."""
MAX_ENTRIES = 20_000
"""Entries below masked folders."""
MAX_NAMES = 2_000
RUNTIME = "/run/user"
"""The folder of users' services, with sockets and files that contain session passwords."""
_SETTLED = 100_000_000
"""Nanoseconds after which a change updates the time of a folder on every file system."""
# Flags of inotify, which Python does not define.
_IN_OPEN = 0x20
_IN_NONBLOCK = 0o4000
_IN_CLOEXEC = 0o2000000
_EVENT = struct.Struct("iIII")


class TooManySecrets(Exception):
    """More files that may hold secrets than can be masked."""


class Masks:
    """Stand-ins for secrets: empty files of the same size whose opening the kernel reports."""

    def __init__(self, folder: Path) -> None:
        """Keep the stand-ins in a new folder.

        Raise OSError if the kernel cannot report openings.
        """
        folder.mkdir(mode=0o700)
        self.rules: list[ReachRule] = []
        """Mounts over all others, for ``Confined.covers``."""
        self._folder = folder
        self._names: dict[int, str] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._queue = self._checked(self._libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC))

    def add(self, secret: Path) -> None:
        """Mask a file, or a folder with everything in it."""
        stand_in = self._folder / str(len(self.rules))
        self._make_like(stand_in, secret)
        self.rules.append(ReachRule(secret, Reach.PROTECTED, source=stand_in))

    def add_names(self, around: Path) -> None:
        """Show the names below a folder that is otherwise hidden."""
        stand_in = self._folder / str(len(self.rules))
        waiting = [(str(stand_in), str(around))]
        left = MAX_NAMES
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
        """Return the secrets that were opened so far, each once, by their original paths."""
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
                # When the kernel has dropped events, it reports a watch of no file.
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
        # By its size and time, git sees that a file is unchanged, without opening it.
        os.utime(stand_in, ns=(info.st_mtime_ns, info.st_mtime_ns))
        self._watch(stand_in, path)

    def _make_folder(self, stand_in: Path, path: Path) -> None:
        """Make a folder with all its names, because a missing name would not be reported."""
        waiting = [(str(stand_in), str(path))]
        left = MAX_ENTRIES
        while waiting:
            copy, folder = waiting.pop()
            os.mkdir(copy, 0o755)
            self._watch(copy, path)  # also reports the files inside
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((f"{copy}/{entry.name}", entry.path))
                    else:
                        os.link(self._empty, f"{copy}/{entry.name}")
            if left < 0:
                raise TooManySecrets(
                    f"{path} has more than {MAX_ENTRIES} files with possible secrets"
                )

    @cached_property
    def _empty(self) -> str:
        """An executable empty file, since a masked folder may contain programs."""
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
    """Mask the secrets, and the files of users' services, until the masks are closed.

    ``folder`` is created, to be removed afterwards. Raise TooManySecrets if there are too many, and
    OSError if they cannot be watched.
    """
    found = list(dict.fromkeys(secrets))
    if len(found) > MAX_MASKED:
        raise TooManySecrets(f"the zones have more than {MAX_MASKED} files with possible secrets")
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
    """Mask the secrets like ``new_masks`` during the context, then remove ``folder``."""
    try:
        masks = new_masks(secrets, folder)
        try:
            yield masks
        finally:
            masks.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _listed(folder: str) -> list[tuple[str, bool]]:
    """Return the names in a folder and whether they are folders, without other file systems.

    Another file system, such as a network drive, may never answer.
    """
    try:
        own = os.lstat(folder).st_dev
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        near: list[tuple[str, bool]] = []
        for name, is_folder in found:
            if not is_folder or _is_near(folder, name, own):
                near.append((name, is_folder))
        return near
    except OSError:
        return []


def _is_near(folder: str, name: str, device: int) -> bool:
    try:
        return folder == RUNTIME or os.lstat(f"{folder}/{name}").st_dev == device
    except OSError:
        return False


class SecretScan:
    """A search for secrets below folders that other scans skip.

    Unchanged folders are not read again.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Sequence[str], Sequence[str]]] = {}

    def secrets(self, folder: str) -> Iterator[str]:
        """Yield the paths of files and folders that may hold secrets, at any depth."""
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
        # A folder that changed just now may change again without a new time.
        if begun - stamp[2] > _SETTLED:
            self._known[path] = (stamp, folders, found)
        return folders, found
