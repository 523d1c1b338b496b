"""Changes of a trial in a git repository: moved refs, staged files and git's records.

Only git reads objects, from a separate repository without configuration. Settings, hooks and
attributes that a command has written have no effect there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import sha1
from pathlib import Path
from struct import error as StructError  # noqa: N812

from msgspec import Struct

from forge_cli.core.text import counted, visible
from forge_cli.sandbox.changes.apply import ChangeSet
from forge_cli.sandbox.changes.path_changes import PathChange
from forge_cli.sandbox.changes.walk import Side
from forge_cli.sandbox.git.index import staged_entries
from forge_cli.toolsets.shell.contents import MADE_AT_MOST, compare_bytes

SECONDS = 20.0
"""Seconds for git to describe one trial; the rest is reported as not shown."""
_READ_AT_MOST, _OBJECT_AT_MOST, _CHUNK = 1 << 24, 1 << 28, 1 << 18
_ABBREVIATED = 7
_GIT = ".git"
_KEPT = frozenset(
    {
        "COMMIT_EDITMSG",
        "FETCH_HEAD",
        "ORIG_HEAD",
        "AUTO_MERGE",
        "MERGE_HEAD",
        "MERGE_MODE",
        "MERGE_MSG",
        "SQUASH_MSG",
        "CHERRY_PICK_HEAD",
        "REVERT_HEAD",
    }
)
"""Files that commits, fetches and merges write, and that no program obeys."""
_OBJECT = re.compile(r"objects/([0-9a-f]{2})/([0-9a-f]{38}|[0-9a-f]{62})")
_PACK = re.compile(r"objects/pack/(pack-[0-9a-f]{40,64}\.\w+|multi-pack-index)")
_OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = re.compile(rf"(?:(?:{_OID.pattern})|ref: refs/\S+)\n?")
_REF_NAME = re.compile(r"refs/[^\x00-\x20~^:?*\[\\\x7f]+")
_PACKED = re.compile(rf"(?P<oid>{_OID.pattern}) (?P<name>refs/\S+)|\^{_OID.pattern}|#.*")
_LOGGED = re.compile(rf"{_OID.pattern} {_OID.pattern} .*? <[^>\n]*> \d+ [+-]\d{{4}}(?:\t[^\n]*)?")
_PLACES = ("objects", "logs", "refs")
_NO_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The hash of the empty tree."""
_USUAL = (" create mode 100644 ", " delete mode 100644 ")
_LINKED = 0o160000
"""The mode of a submodule."""
_MARKS = {0x8000: "assumed unchanged", 0x4000_0000: "skipped", 0x2000_0000: "to be added"}
"""Flags of an index entry; the upper 16 bits are its extended flags."""
_CONFIG = """[core]
bare = true
repositoryformatversion = 0
commitGraph = false
multiPackIndex = false
bigFileThreshold = 1m
"""


class StagedEntry(Struct, frozen=True):
    """A path in the index."""

    mode: int
    object: str
    marks: tuple[str, ...]
    """Flags of the index that change how git treats the file."""


class StagedChange(Struct, frozen=True):
    """A path whose index entry changed; None for a missing entry."""

    name: bytes
    before: StagedEntry | None
    after: StagedEntry | None

    @property
    def sides(self) -> tuple[StagedEntry | None, StagedEntry | None]:
        return self.before, self.after

    @property
    def has_other_contents(self) -> bool:
        """True if the contents differ, not only the mode or the flags."""
        objects = [side and side.object for side in self.sides]
        return objects[0] != objects[1]


class Repository:
    """A ``.git`` folder that a trial changed."""

    def __init__(self, changes: ChangeSet, zone: str, parts: tuple[str, ...], ends: float) -> None:
        """``parts`` is the path of the ``.git`` folder, ``ends`` the deadline for git."""
        self._changes = changes
        self._ends = ends
        self.folder = Path(zone, *parts)
        self._inside: dict[str, PathChange] = {}
        for change in changes.changes:
            inside = change.parts[len(parts) :]
            if inside and change.zone == zone and change.parts[: len(parts)] == parts:
                self._inside["/".join(inside)] = change
        self._files = {str(change.path): change for change in changes.changes}
        self.unseen = 0
        """Differences that git could not show."""

    @cached_property
    def records(self) -> Mapping[str, PathChange]:
        """Changes in objects, logs, refs and the index, which share rows."""
        if not self._is_repository:
            return {}
        return {
            name: change for name, change in self._inside.items() if self._is_record(name, change)
        }

    @cached_property
    def kept(self) -> list[PathChange]:
        """Changes with rows of their own that belong to any commit or fetch."""
        return [
            change for name, change in self._inside.items() if name in _KEPT and _is_plain(change)
        ]

    @property
    def _is_repository(self) -> bool:
        return self._read("HEAD", "after") is not None and all(
            self._has_folder(name) for name in ("objects", "refs")
        )

    def _has_folder(self, name: str) -> bool:
        change = self._inside.get(name)
        if change is None:
            path = self.folder / name
            return path.is_dir() and not path.is_symlink()
        return change.after is not None and change.after.kind == "folder"

    def _is_record(self, name: str, change: PathChange) -> bool:
        place = name.partition("/")[0]
        entries = [entry for entry in (change.before, change.after) if entry]
        # 0o5002: no folder with the setuid or sticky bit, and none that others can write to.
        if place in _PLACES and all(entry.kind == "folder" for entry in entries):
            return change.what in ("made", "deleted") and not any(
                entry.mode & 0o5002 for entry in entries
            )
        if not _is_plain(change):
            return False
        match place:
            case "objects":
                return bool(_PACK.fullmatch(name)) or self._is_object(name, change)
            case "logs":
                return self._is_log(name)
            case "refs":
                return bool(_REF_NAME.fullmatch(name)) and self._is_ref(name)
        match name:
            case "HEAD":
                return self._is_ref(name)
            case "packed-refs":
                return all(self._packed(side) is not None for side in _SIDES)
            case "index":
                return self.staged is not None
        return False

    def _is_object(self, name: str, change: PathChange) -> bool:
        """Return True for an object whose name matches its contents."""
        found = _OBJECT.fullmatch(name)
        if found is None or change.what not in ("made", "deleted", "times"):
            return False
        # git updates the time of an object that exists; SHA-256 names are not checked.
        if change.what != "made" or len(found[2]) > 38:
            return True
        return _loose_name(self._changes.source(change, "after")) == found[1] + found[2]

    def _is_log(self, name: str) -> bool:
        before, after = (self._read(name, side) or b"" for side in _SIDES)
        lines = after.decode(errors="replace").splitlines()
        grows = after.startswith(before) or not after
        return (
            grows
            and name.startswith(("logs/HEAD", "logs/refs/"))
            and all(map(_LOGGED.fullmatch, lines))
        )

    def _is_ref(self, name: str) -> bool:
        after = self._read(name, "after")
        return after is None or _REF.fullmatch(after.decode(errors="replace")) is not None

    def _read(self, name: str, side: Side) -> bytes | None:
        """Return the contents of a file before or after; None for a missing or special file."""
        change, path = self._inside.get(name), self.folder / name
        if change is not None:
            entry = change.before if side == "before" else change.after
            if entry is None or entry.kind != "file" or entry.size > _READ_AT_MOST:
                return None
            path = change.path if side == "before" else self._changes.source(change, "after")
        try:
            return path.read_bytes() if path.is_file() else None
        except OSError:
            return None

    # --- refs

    def _packed(self, side: Side) -> Mapping[str, str] | None:
        """Return the refs in ``packed-refs``; None if the file contains anything else."""
        found: dict[str, str] = {}
        for line in (self._read("packed-refs", side) or b"").decode(errors="replace").splitlines():
            match = _PACKED.fullmatch(line)
            if match is None:
                return None
            if match["name"]:
                found[match["name"]] = match["oid"]
        return found

    def _ref(self, name: str, side: Side) -> str | None:
        loose = self._read(name, side)
        if loose is not None:
            return loose.decode(errors="replace").strip().removeprefix("ref: ")
        return (self._packed(side) or {}).get(name)

    @cached_property
    def refs(self) -> list[tuple[str, str | None, str | None]]:
        """The refs that moved, with their old and new values."""
        names = [name for name in self.records if name == "HEAD" or name.startswith("refs/")]
        if "packed-refs" in self.records:
            before, after = (self._packed(side) or {} for side in _SIDES)
            names += [name for name in {**before, **after} if before.get(name) != after.get(name)]
        found = [
            (name, self._ref(name, "before"), self._ref(name, "after"))
            for name in sorted(set(names))
        ]
        return [(name, was, now) for name, was, now in found if was != now]

    def _head(self, side: Side) -> str | None:
        """Return the checked out commit."""
        head = self._ref("HEAD", side)
        return self._ref(head, side) if head and head.startswith("refs/") else head

    # --- the index

    @cached_property
    def staged(self) -> list[StagedChange] | None:
        """The changed index entries; None if an index cannot be read."""
        if "index" not in self._inside:
            return []
        try:
            before, after = (dict(_entries(self._read("index", side))) for side in _SIDES)
        except ValueError:
            return None
        names = sorted(before.keys() | after.keys())
        staged: list[StagedChange] = []
        for name in names:
            if before.get(name) != after.get(name):
                staged.append(StagedChange(name, before.get(name), after.get(name)))
        return staged

    # --- what people see

    def rows(self, name: str) -> Iterator[str]:
        """Yield a row for each ref, for the index, and for objects and logs together."""
        for ref, before, after in self.refs:
            yield f"git      {name} {ref} {_short(before)}..{_short(after)}"
        if "index" in self.records:
            staged = self.staged or []
            counts = [
                (counted(sum(each.before is None for each in staged), "new file"), "staged"),
                (
                    counted(
                        sum(None not in (each.before, each.after) for each in staged),
                        "changed file",
                    ),
                    "staged",
                ),
                (
                    counted(sum(each.after is None for each in staged), "file"),
                    "no longer staged",
                ),
            ]
            parts = [f"{count} {what}" for count, what in counts if not count.startswith("0 ")]
            yield f"git      {name} index ({', '.join(parts) or 'other flags and times of files'})"
        files = [
            file for file, each in self.records.items() if _is_plain(each) and each.what != "times"
        ]
        totals: list[str] = []
        for place, what in (("objects/", "object"), ("logs/", "log")):
            count = sum(file.startswith(place) for file in files)
            if count:
                totals.append(counted(count, what))
        if totals:
            yield f"git      {name} {', '.join(totals)}"

    def differences(self, at_most: int) -> Iterator[list[str]]:
        """Yield the differences of each moved ref, and then the staged changes."""
        if not self.refs and not self.staged:
            return
        with _Git(self._objects(), self._changes.folder / "git", self._ends) as git:
            seen: set[tuple[str | None, str]] = set()
            for ref, before, after in self.refs:
                if ref != "HEAD" and after and _OID.fullmatch(after):
                    since = before if before and _OID.fullmatch(before) else self._head("before")
                    if since != after and (since, after) not in seen:
                        seen.add((since, after))
                        yield self._between(git, ref, since, after)
            yield from self._staged_differences(git, at_most)

    def _between(self, git: _Git, ref: str, before: str | None, after: str) -> list[str]:
        """Return the files that differ between two commits, with line counts."""
        title = visible(f"git diff --stat {_short(before)}..{_short(after)} ({ref})")
        told = git.run(
            "diff-tree", "-r", "--no-renames", "--numstat", "--summary", before or _NO_TREE, after
        )
        if told is None:
            self.unseen += 1
            return [title, " the difference cannot be shown"]
        lines = [title]
        total = [0, 0, 0]
        for line in told.decode(errors="surrogateescape").splitlines():
            added, _, rest = line.partition("\t")
            gone, tab, path = rest.partition("\t")
            if not tab:
                if not line.startswith(_USUAL):
                    lines.append(visible(line))
                continue
            counts = [int(count) if count.isdecimal() else 0 for count in (added, gone)]
            total = [total[0] + 1, total[1] + counts[0], total[2] + counts[1]]
            change = "binary" if added == "-" else f"+{added} -{gone}"
            lines.append(visible(f" {path} | {change}"))
        return [*lines, f" {counted(total[0], 'file')}, +{total[1]} -{total[2]}"]

    def _staged_differences(self, git: _Git, at_most: int) -> Iterator[list[str]]:
        staged = [each for each in self.staged or [] if not self._is_shown(each)]
        wanted: list[str] = []
        for each in staged:
            if each.has_other_contents:
                wanted += [side.object for side in each.sides if side]
        blobs = git.blobs(wanted)
        for each in staged:
            title = visible(f"staged {os.fsdecode(each.name)}{_marked(each)}")
            if _LINKED in [side.mode for side in each.sides if side]:
                commits = [_short(side.object if side else None) for side in each.sides]
                yield [f"{title} (submodule {commits[0]} to {commits[1]})"]
            else:
                contents = self._contents(each, blobs, at_most) if each.has_other_contents else []
                is_named = (
                    contents[:1] != [] and contents[0].startswith("---") and not _marked(each)
                )
                yield contents if is_named else [title, *contents]

    def _is_shown(self, staged: StagedChange) -> bool:
        """Return True if the same difference is shown for the file itself."""
        change = self._files.get(str(self.folder.parent / os.fsdecode(staged.name)))
        if change is None or not staged.has_other_contents or _marked(staged):
            return False
        for side, entry, file in zip(
            _SIDES, staged.sides, (change.before, change.after), strict=True
        ):
            if (file is None) != (entry is None):
                return False
            path = change.path if side == "before" else self._changes.source(change, "after")
            if (
                file
                and entry
                and (
                    file.kind != "file"
                    or file.size > MADE_AT_MOST
                    or _blob_name(path) != entry.object
                )
            ):
                return False
        return True

    def _contents(
        self, staged: StagedChange, blobs: Mapping[str, bytes], at_most: int
    ) -> list[str]:
        name = f"staged {os.fsdecode(staged.name)}"
        sides = [blobs.get(side.object) if side else None for side in staged.sides]
        if any(side and data is None for side, data in zip(staged.sides, sides, strict=True)):
            self.unseen += 1
            return [" its contents cannot be shown"]
        names = [name if side else "/dev/null" for side in staged.sides]
        found = compare_bytes(sides[0], sides[1], names[0], names[1])
        if not found.shown or sum(map(len, found.difference)) > at_most:
            self.unseen += 1
            return [f" {found.kind}, {counted(len(sides[1] or b''), 'byte')}, not shown"]
        return list(found.difference)

    def _objects(self) -> list[Path]:
        """Return the object folders: first the one of the copy, then the original."""
        copy = self._inside.get("objects") or next(iter(self._inside.values()))
        above = len(copy.parts) - 1 - list(reversed(copy.parts)).index(_GIT)
        inner = PathChange(copy.zone, (*copy.parts[: above + 1], "objects"), None, None)
        return [self._changes.source(inner, "after"), self.folder / "objects"]


_SIDES: tuple[Side, Side] = ("before", "after")


def repositories_in(changes: ChangeSet) -> list[Repository]:
    """Return every repository whose records may have changed."""
    ends = time.monotonic() + SECONDS
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for change in changes.changes:
        if _GIT in change.parts[:-1]:
            last = len(change.parts) - 1 - list(reversed(change.parts[:-1])).index(_GIT) - 1
            found[change.zone, change.parts[: last + 1]] = None
    return [Repository(changes, zone, parts, ends) for zone, parts in found]


class _Git:
    """Git in a temporary empty repository that borrows the objects of another one."""

    def __init__(self, objects: Iterable[Path], folder: Path, ends: float) -> None:
        self._objects = objects
        self._folder = folder
        self._ends = ends

    def __enter__(self) -> _Git:
        shutil.rmtree(self._folder, ignore_errors=True)
        for name in ("objects/info", "refs"):
            (self._folder / name).mkdir(mode=0o700, parents=True)
        (self._folder / "HEAD").write_text("ref: refs/heads/none\n")
        (self._folder / "config").write_text(_CONFIG)
        # The file has one path a line, so a path with a line feed cannot be in it.
        lines = [
            os.fsencode(path) for path in self._objects if path.is_dir() and "\n" not in str(path)
        ]
        (self._folder / "objects/info/alternates").write_bytes(
            b"".join(line + b"\n" for line in lines)
        )
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, *args: str, feed: bytes = b"") -> bytes | None:
        """Return the output of git; None if it fails, is missing or takes too long."""
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._folder),
            "LC_ALL": "C",
            "GIT_DIR": str(self._folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOC_LIMIT": "512m",
        }
        git = shutil.which("git")
        # A relative entry in the PATH could lead to a program that the command has written.
        if git is None or not os.path.isabs(git):
            return None
        with suppress(OSError, subprocess.SubprocessError):
            left = max(0.1, self._ends - time.monotonic())
            done = subprocess.run(
                [git, *args],
                cwd=self._folder,
                env=environment,
                input=feed,
                capture_output=True,
                timeout=left,
                check=True,
            )
            return done.stdout
        return None

    def blobs(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return the contents of objects, except for large and missing ones."""
        if not names:
            return {}
        feed = "".join(f"{name}\n" for name in dict.fromkeys(names)).encode()
        listed = [
            line.split()
            for line in (self.run("cat-file", "--batch-check", feed=feed) or b"").splitlines()
        ]
        # A missing object has two words: its name and "missing".
        small: list[bytes] = []
        for line in listed:
            if len(line) == 3 and line[1] == b"blob" and int(line[2]) <= _READ_AT_MOST:
                small.append(line[0])
        found: dict[str, bytes] = {}
        at = 0
        said = self.run("cat-file", "--batch", feed=b"".join(name + b"\n" for name in small)) or b""
        while at < len(said):
            end = said.index(b"\n", at)
            name, _, size = said[at:end].split()
            found[name.decode()] = said[end + 1 : end + 1 + int(size)]
            at = end + 2 + int(size)
        return found


def _entries(index: bytes | None) -> Iterator[tuple[bytes, StagedEntry]]:
    """Yield every path in an index; raise ValueError if it cannot be read."""
    if index is None:
        return
    try:
        for mode, digest, flags, more, name in staged_entries(index):
            stage, marks = flags >> 12 & 3, flags | more << 16
            words = tuple(word for bit, word in _MARKS.items() if marks & bit)
            if stage:  # a conflict stages several versions of one path
                name = b"%b (side %d)" % (name, stage)
            yield name, StagedEntry(mode, digest.hex(), words)
    except (IndexError, StructError) as error:
        raise ValueError(str(error)) from None


def _is_plain(change: PathChange) -> bool:
    """Return True for an ordinary file, before and after."""
    entries = [entry for entry in (change.before, change.after) if entry]
    # 0o7113: no special bit, not executable, and others cannot write.
    return all(entry.kind == "file" and not entry.mode & 0o7113 for entry in entries)


def _short(name: str | None) -> str:
    if name is None:
        return "none"
    return name[:_ABBREVIATED] if _OID.fullmatch(name) else name


def _marked(staged: StagedChange) -> str:
    """Return the changes of mode and flags, in brackets."""
    before, after = staged.sides
    parts: list[str] = []
    if before and after and before.mode != after.mode:
        parts.append(f"mode {before.mode:o} to {after.mode:o}")
    if after and (not before or before.marks != after.marks):
        parts += after.marks
        if before and not after.marks:
            parts.append("flags cleared")
    return f" ({', '.join(parts)})" if parts else ""


def _loose_name(path: Path) -> str | None:
    """Return the name of an object by its contents; None if it is invalid or too large."""
    reader = zlib.decompressobj()
    digest = sha1()  # noqa: S324 - git names objects by it
    left = _OBJECT_AT_MOST  # bounds the work on a small file that unpacks to a huge one
    try:
        with path.open("rb") as file:
            data = file.read(_CHUNK)
            while data and left > 0:
                found = reader.decompress(data, _CHUNK)
                left -= len(found)
                digest.update(found)
                data = reader.unconsumed_tail or file.read(_CHUNK)
    except (OSError, zlib.error):
        return None
    return digest.hexdigest() if reader.eof and not reader.unused_data else None


def _blob_name(path: Path) -> str | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return sha1(b"blob %d\0" % len(data) + data).hexdigest()  # noqa: S324 - git names objects by it
