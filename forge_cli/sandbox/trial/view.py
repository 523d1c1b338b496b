"""The view of a tried command: no more than may be read without asking.

The output of a trial goes to the model without a question. It therefore sees the zones without
possible secrets, and the system's programs and libraries. Other folders are hidden, and access to
them is noticed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from forge_cli.core.trial import TriedWant
from forge_cli.sandbox.isolation.confinement import Confinement
from forge_cli.sandbox.isolation.protected_scan import ProtectedScan
from forge_cli.sandbox.isolation.toolchains import find_toolchains
from forge_cli.sandbox.protected import is_secret
from forge_cli.sandbox.trial.masked import SecretScan

_SYSTEM = frozenset(
    (
        "bin",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "nix",
        "proc",
        "run",
        "sbin",
        "sys",
        "tmp",
        "usr",
    )
)
_RUN = (Path("/run"), Path("/var/run"))
_SHOWN = ("/var/lib/dpkg", "/var/lib/rpm", "/var/cache/fontconfig")
_DEVICES = frozenset(
    f"/dev/{name}" for name in ("full", "null", "ptmx", "random", "tty", "urandom", "zero")
)
"""Devices that every command has."""
_PRIVATE = (Path("/tmp"), Path("/dev/shm"))  # noqa: S108
"""Folders of which commands have private ones."""
_ETC = "/etc"
_DEPTH = 4
OUTSIDE = "is outside the zones"
UNSEEN = "no command sees"
_PATH = re.compile(r"(?<![\w.~$-])(?:/|\.\.?/)[^\s'\"‘’`;|&<>(){},:]*")


@dataclass
class TrialView:
    """The view of one worker's trials, and what they lack."""

    around: Confinement
    """The confinement of the worker's commands, without ``sandbox.read``."""
    named: tuple[Path, ...] = ()
    """The paths of ``sandbox.read``."""
    _protected_scan: ProtectedScan = field(default_factory=ProtectedScan)
    _secret_scan: SecretScan = field(default_factory=SecretScan)

    def confinement(self) -> Confinement:
        found = self.around
        own = {*found.homes, *found.hidden}
        others = [path for path in hidden_folders() if path not in own]
        search = os.environ.get("PATH", "")
        programs = {path for _, path in find_toolchains(others, search)}
        return replace(
            found,
            hidden=(*found.hidden, *others),
            shown=tuple(sorted({*found.shown, *programs, *map(Path, _SHOWN)})),
            network=True,
        )

    def secrets(self, names: Iterable[str]) -> Iterator[Path]:
        """Yield the paths in zones that may hold secrets.

        ``names`` are the protected names in writable zones.
        """
        roots = [self.around.workspace, *(zone.path for zone in self.around.zones)]
        for name in (*names, *self._protected_scan.names(map(str, roots), frozenset())):
            found: Iterable[str] = [name]
            if not is_secret(os.path.basename(name)):
                found = self._secret_scan.secrets(name)
            for each in found:
                real = Path(os.path.realpath(each))
                if real.exists() and any(
                    real.is_relative_to(root) and real != root for root in roots
                ):
                    yield real

    def lacks(self, text: str, folder: Path) -> Iterator[str]:
        """Yield the existing paths in a text that the command would see, but a trial does not.

        Paths that are hidden from all commands are no lack, since a yes could not change that.
        """
        seen = [
            self.around.workspace,
            *self.around.shown,
            *(zone.path for zone in self.around.zones),
        ]
        hidden = [*hidden_folders(), *self.named]
        for path in _paths(text, folder):
            is_hidden = any(path.is_relative_to(place) for place in hidden)
            is_seen = any(path.is_relative_to(place) for place in seen)
            is_seen = is_seen or self._is_always_hidden(path)
            if is_hidden and not is_seen and os.path.lexists(path):
                yield str(path)

    def _is_always_hidden(self, path: Path) -> bool:
        """Return True if no command sees a path, even after a yes, such as one in a home."""
        hidden = (*self.around.homes, *self.around.hidden, *_PRIVATE)
        named = any(path.is_relative_to(place) for place in self.named)
        return not named and any(path.is_relative_to(place) for place in hidden)

    def refuses(self, line: str, said: str, folder: Path) -> Iterator[TriedWant]:
        """Yield paths in a line that no command gets: devices, sockets, read-only places.

        Paths in ``/run`` are hidden from all commands, and count even if only an error names them.
        """
        unwritable = list(_paths(complaints(said, errno.EROFS), folder))
        for path in _paths(f"{line}\n{complaints(said, errno.ENOENT)}", folder):
            in_run = any(map(path.is_relative_to, _RUN)) and path not in _RUN
            if in_run and os.path.lexists(path) and not _special_kind(path):
                yield TriedWant("read", str(path), UNSEEN)
        for path in _paths(line, folder):
            inside = any(path.is_relative_to(zone.path) for zone in self.around.zones)
            if kind := _special_kind(path):
                yield TriedWant("read", str(path), f"is a {kind}")
            elif not inside and any(path.is_relative_to(place) for place in unwritable):
                yield TriedWant("write", str(path), OUTSIDE)


def complaints(said: str, *numbers: int) -> str:
    """Return the lines in which a program reports one of these errors."""
    errors = [os.strerror(number).lower() for number in numbers]
    return "\n".join(
        line for line in said.splitlines() if any(error in line.lower() for error in errors)
    )


def _paths(text: str, folder: Path) -> Iterator[Path]:
    for word in dict.fromkeys(_PATH.findall(text)):
        yield Path(os.path.normpath(folder / word))


def _special_kind(path: Path) -> str | None:
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return None
    if stat.S_ISSOCK(mode):
        return "socket"
    is_device = stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
    if is_device and str(path) not in _DEVICES:
        return "device"
    return None


@cache
def hidden_folders() -> tuple[Path, ...]:
    """Return folders in ``/`` that are not the system's, and private parts of ``/etc``."""
    with os.scandir("/") as entries:
        others = [
            entry.path
            for entry in entries
            if entry.name not in _SYSTEM and entry.is_dir(follow_symlinks=False)
        ]
    return tuple(map(Path, sorted([*others, *_unreadable(_ETC, _DEPTH)])))


def _unreadable(folder: str, depth: int) -> Iterator[str]:
    """Yield files that not everyone may read, since root's commands could read them all."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        info = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            continue
        if not info.st_mode & stat.S_IROTH:
            yield entry.path
        elif stat.S_ISDIR(info.st_mode) and depth:
            yield from _unreadable(entry.path, depth - 1)
