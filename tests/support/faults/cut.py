"""forge, with a model of the disk beside it: ``cut.py REPORT ARGV...`` reports what a power cut at any moment leaves.

What is sure is what was synced: the content of a file since its last fsync, and the names in a folder since that of the
folder. Everything else may have reached the disk or not. Between any two calls that change something, the report has
three states of FORGE_HOME and of the working directory:

- ``sure``: only the names and contents that were synced
- ``short``: every name, and files as long as they were when they were synced; new ones are empty
- ``zeros``: every name, and zeros where a content was not synced
"""

import builtins
import io
import os
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec

CHANGING = (
    *(
        "write",
        "pwrite",
        "copy_file_range",
        "sendfile",
        "rename",
        "replace",
        "link",
        "symlink",
        "mkfifo",
        "unlink",
    ),
    *(
        "remove",
        "mkdir",
        "rmdir",
        "chmod",
        "fchmod",
        "ftruncate",
        "utime",
        "setxattr",
        "removexattr",
        "open",
    ),
)
KINDS = ("sure", "short", "zeros")
PLACES = ("work", "home")
Kind = Literal["sure", "short", "zeros"]


class Node(msgspec.Struct, frozen=True):
    """The file or folder of a name."""

    number: int
    """The same for two names of one file."""
    kind: Literal["folder", "file", "link", "other"]
    mode: int
    content: str = ""
    """The hash of a file, or the target of a link."""


Tree = dict[str, Node]
"""The names below a place, with slashes."""


class Moment(msgspec.Struct):
    """The possible state after a power cut before a call."""

    before: str
    """The call."""
    trees: dict[str, dict[str, Tree]]
    """By place, and by kind."""


class Disk:
    """The data that is certainly on disk, updated at each sync; contents are stored by their hash."""

    def __init__(self, places: dict[str, str], contents: Path) -> None:
        self._places = places
        self._contents = contents
        self._numbers: dict[tuple[int, int], int] = {}
        self._held: list[int] = []
        self._read: dict[int, tuple[tuple[int, ...], str]] = {}
        self._names: dict[int, dict[str, int]] = {}
        self._nodes: dict[int, Node] = {}
        self._sizes: dict[str, bytes] = {}
        self._kept: dict[int, str] = {}
        self.moments: list[Moment] = []
        self.sync_all()

    def look(self, before: str) -> None:
        """Record the state after a power cut now, if it differs from the last one."""
        live = {place: self._live(root) for place, root in self._places.items()}
        trees = {place: {"sure": self._sure(root)} for place, root in self._places.items()}
        for place, tree in live.items():
            for kind in ("short", "zeros"):
                trees[place][kind] = {
                    name: self._unsynced(node, kind) for name, node in tree.items()
                }
        if not self.moments or self.moments[-1].trees != trees:
            self.moments.append(Moment(before, trees))

    def sync_all(self, device: int | None = None) -> None:
        for root in self._places.values():
            if device in (None, os.stat(root).st_dev):
                for folder, _, names in os.walk(root):
                    self.sync(folder)
                    for name in names:
                        self.sync(os.path.join(folder, name))

    def sync(self, path: str) -> None:
        """Take note that a file, or a folder, was synced."""
        if not any(path == root or path.startswith(f"{root}/") for root in self._places.values()):
            return
        with suppress(FileNotFoundError):
            node = self._node(path)
            if node.kind == "folder":
                self._names[node.number] = {
                    name: self._node(f"{path}/{name}").number for name in os.listdir(path)
                }
            if node.kind == "file":
                self._kept[node.number] = node.content

    def _node(self, path: str) -> Node:
        info = os.lstat(path)
        number = self._number(path, info)
        mode = stat.S_IMODE(info.st_mode)
        if stat.S_ISREG(info.st_mode):
            node = Node(number, "file", mode, self._content(path, number, info))
        elif stat.S_ISLNK(info.st_mode):
            node = Node(number, "link", mode, os.readlink(path))
        else:
            node = Node(number, "folder" if stat.S_ISDIR(info.st_mode) else "other", mode)
        self._nodes[number] = node
        return node

    def _number(self, path: str, info: os.stat_result) -> int:
        """A number that no other file gets, since the file is held open."""
        key = (info.st_dev, info.st_ino)
        if key not in self._numbers:
            self._held.append(_open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))
            self._numbers[key] = len(self._numbers)
        return self._numbers[key]

    def _content(self, path: str, number: int, info: os.stat_result) -> str:
        state = (info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        if self._read.get(number, (None, ""))[0] != state or not info.st_size:
            with _stream(path, "rb") as stream:
                self._read[number] = (state, self._store(stream.read()))
        return self._read[number][1]

    def _store(self, data: bytes) -> str:
        name = sha256(data).hexdigest()
        if name not in self._sizes:
            self._sizes[name] = data
            with _stream(self._contents / name, "wb") as stream:
                stream.write(data)
        return name

    def _live(self, root: str) -> Tree:
        found: Tree = {}
        for folder, folders, files in os.walk(root):
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                with suppress(OSError):  # of a command that is at work
                    found[os.path.relpath(path, root)] = self._node(path)
        return found

    def _sure(self, root: str) -> Tree:
        found: Tree = {}
        todo = [("", self._node(root).number)]
        while todo:
            around, folder = todo.pop()
            for name, number in self._names.get(folder, {}).items():
                path = f"{around}{name}"
                node = self._nodes[number]
                found[path] = self._unsynced(node, "short")
                if node.kind == "folder":
                    todo.append((f"{path}/", number))
        return found

    def _unsynced(self, node: Node, kind: str) -> Node:
        """The same with the content that it may have after a power cut."""
        if node.kind != "file":
            return node
        kept = self._kept.get(node.number)
        if kept == node.content:
            return node
        old, new = self._sizes[kept] if kept else b"", self._sizes[node.content]
        if kind == "short":
            return msgspec.structs.replace(node, content=self._store(old))
        same = old if new.startswith(old) else b""
        return msgspec.structs.replace(
            node, content=self._store(same + bytes(len(new) - len(same)))
        )


_open, _stream = os.open, io.open


def recording(disk: Disk) -> None:
    """Report every call to the disk from now on."""
    lock = threading.Lock()
    looking = threading.local()

    def alone(step: Callable[..., None], *args: Any) -> None:
        """Take a step of this model, which makes calls of its own."""
        if getattr(looking, "now", False):
            return
        with lock:
            looking.now = True
            try:
                step(*args)
            finally:
                looking.now = False

    def around(
        name: str, real: Callable[..., Any], after: Callable[..., None] | None = None
    ) -> Callable[..., Any]:
        def called(*args: Any, **options: Any) -> Any:
            alone(disk.look, f"{name} {args[:2]!r:.200}")
            result = real(*args, **options)
            if after is not None:
                alone(after, *args)
            return result

        return called

    def place_of(descriptor: int) -> str:
        return os.readlink(f"/proc/self/fd/{descriptor}")

    for name in CHANGING:
        setattr(os, name, around(name, getattr(os, name)))
    for name in ("fsync", "fdatasync"):
        setattr(
            os,
            name,
            around(name, getattr(os, name), lambda descriptor: disk.sync(place_of(descriptor))),
        )
    io.open = builtins.open = around("open", io.open)  # type: ignore[assignment]

    from forge_cli.sandbox.changes import walk

    class Library:
        """The functions of the system that Python has no names for."""

        syncfs = staticmethod(
            around(
                "syncfs",
                walk._libc.syncfs,
                lambda descriptor: disk.sync_all(os.fstat(descriptor).st_dev),
            )
        )

    walk._libc = Library  # type: ignore[assignment]


if __name__ == "__main__":
    _, report, *argv = sys.argv
    contents = Path(report).with_suffix(".contents")
    contents.mkdir(exist_ok=True)
    disk = Disk({"work": os.getcwd(), "home": os.path.realpath(os.environ["FORGE_HOME"])}, contents)
    recording(disk)
    from forge_cli.cli.app import main

    sys.argv = ["forge", *argv]
    try:
        sys.exit(main())
    finally:
        disk.look("the end")
        with _stream(report, "wb") as stream:
            stream.write(msgspec.json.encode(disk.moments))
