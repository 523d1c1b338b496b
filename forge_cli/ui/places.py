"""Files by the names that people type: relative to the working directory, ``/zone/...``, ``~/...`` or absolute."""

from __future__ import annotations

import heapq
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from forge_cli.core.messages import Attachment
from forge_cli.core.text import visible
from forge_cli.files.attachment import NEITHER, UnknownKind, media_type, read_attachment
from forge_cli.files.home import user_home
from forge_cli.sandbox.search.files import FileWalk, Include, SearchStart
from forge_cli.sandbox.zones.declared import named_file
from forge_cli.ui.facts import Facts

MENTION = re.compile(r'(?<![^\s(])@(?:"([^"\n]+)"|([^\s"]+))')
"""``@path``, or ``@"a path"``, that begins a word."""
MOST = 50
"""Names that are offered at once."""
LISTED = 100_000
"""Files of a folder that are looked through."""
FRESH = 5.0
"""Seconds for which a list of them is good."""
SLOW = 2.0
"""Seconds that a program may take."""
_IMAGE = re.compile(r"""(?<!\S)(?:'([^'\n]+)'|"([^"\n]+)"|((?:\\.|[^\s\\'"])+))(?!\S)""")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_CLIPBOARDS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)


class Places:
    """The folders of a conversation's files."""

    def __init__(self, workspace: Path, zones: Mapping[str, Path]) -> None:
        self.workspace = workspace
        self.zones = zones
        self._listed: tuple[float, Sequence[str]] = float("-inf"), ()

    def find(self, name: str) -> Path:
        """The file that a name means; it need not exist."""
        return named_file(name, self.workspace, self.zones, user_home())

    def complete(self, begun: str) -> list[str]:
        """The names that begin so, folders with a slash at their end; hidden ones only where a dot was typed."""
        folder, slash, start = begun.rpartition("/")
        found = (
            [f"/{zone}/" for zone in self.zones if f"/{zone}".startswith(begun)]
            if begun.count("/") == 1
            else []
        )
        place = self.find(folder + slash) if slash else self.workspace
        try:
            with os.scandir(place) as entries:
                names = sorted(
                    (entry.name, entry.is_dir())
                    for entry in entries
                    if entry.name.startswith(start)
                )
        except OSError:
            names = []
        shown = [
            (name, is_dir)
            for name, is_dir in names
            if start.startswith(".") or not name.startswith(".")
        ]
        return [*found, *(f"{folder}{slash}{name}{'/' * is_dir}" for name, is_dir in shown)][:MOST]

    def search(self, begun: str) -> list[str]:
        """The names that begin so, then the files of the folder that it could be a part of, the best first."""
        begins = self.complete(begun)
        if not begun or begun[0] in "/~":
            return begins
        letters = re.compile(".*?".join(map(re.escape, begun.casefold())))
        ranked = (
            (rank, name)
            for name in self._files()
            if (rank := _rank(begun.casefold(), letters, name))
        )
        return [*dict.fromkeys((*begins, *(name for _, name in heapq.nsmallest(MOST, ranked))))][
            :MOST
        ]

    def _files(self) -> Sequence[str]:
        """The files of the folder but for hidden ones, and those that git ignores."""
        since, names = self._listed
        if time.monotonic() - since > FRESH:
            names = _list_files(self.workspace)
            self._listed = time.monotonic(), names
        return names

    def attachments(self, text: str) -> Iterator[Attachment]:
        """The files that a text mentions, and images whose path is in it; all else is only text."""
        named = (self._mentioned(name) for name in _mentions(text))
        images = (
            self.find(re.sub(r"\\(.)", r"\1", "".join(found))) for found in _IMAGE.findall(text)
        )
        files = (*named, *(file for file in images if file.suffix.lower() in _IMAGES))
        for file in dict.fromkeys(files):
            if file and file.is_file():
                with suppress(UnknownKind):
                    yield read_attachment(file)

    def warnings(self, text: str) -> Iterator[str]:
        """A sentence for each name that a text mentions like a file, or that a file begins with, and is not one.

        A file that no model could be shown has one, too.
        """
        for name in _mentions(text):
            if file := self._mentioned(name):
                try:
                    read_attachment(file)
                except UnknownKind:
                    yield f"@{visible(file.name)} is {NEITHER}, so it is only text"
        named = (
            name.rstrip(".,;:!?)") for name in _mentions(text) if self._mentioned(name) is None
        )
        for name in (name for name in named if name and not self.find(name).exists()):
            near = next(iter(self.search(name)), "")
            begins = near.rpartition("/")[2].casefold().startswith(name.casefold())
            if "/" in name or "." in name or begins:
                hint = f"; did you mean @{visible(near)}?" if near else ""
                yield f"@{visible(name)} is not a file, so it is only text{hint}"

    def _mentioned(self, name: str) -> Path | None:
        files = (self.find(each) for each in (name, name.rstrip(".,;:!?)")))
        return next((file for file in files if file.is_file()), None)


def _mentions(text: str) -> list[str]:
    return [quoted or word for quoted, word in MENTION.findall(text)]


def _rank(begun: str, letters: re.Pattern[str], name: str) -> tuple[int, int] | None:
    """How well a file fits what was typed, in small letters; None where it does not."""
    path = name.casefold()
    last = path.rpartition("/")[2]
    fits = (
        last.startswith(begun),
        begun in last,
        begun in path,
        letters.search(last),
        letters.search(path),
    )
    return next(((place, len(path)) for place, fit in enumerate(fits) if fit), None)


def _list_files(folder: Path) -> Sequence[str]:
    """As ripgrep lists them; without it by a walk of our own, which takes longer."""
    if ripgrep := shutil.which("rg"):
        command = [ripgrep, "--no-config", "--files", "--no-require-git", "--sort=path"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, timeout=SLOW, stdin=subprocess.DEVNULL
            )
            return os.fsdecode(done.stdout).splitlines()[:LISTED]
        except (OSError, subprocess.TimeoutExpired):
            pass
    batches = FileWalk(SearchStart(folder), Include()).batches()
    walked = map(os.fsdecode, chain.from_iterable(batch.files for batch in batches))
    return [name for name in islice(walked, LISTED) if not re.search(r"(^|/)\.", name)]


def pasted_image() -> Attachment | None:
    """The image in the clipboard of the desktop, where there is one and a program that gives it."""
    for command in _CLIPBOARDS:
        if shutil.which(command[0]):
            try:
                data = subprocess.run(
                    command, capture_output=True, timeout=SLOW, stdin=subprocess.DEVNULL
                ).stdout
            except (OSError, subprocess.TimeoutExpired):
                continue
            if media_type(data).startswith("image/"):
                return Attachment("pasted.png", media_type(data), data)
    return None


def typed_path(facts: Facts, text: str) -> Path:
    """The file or folder that is meant."""
    return Path(facts.workspace or ".") / Path(text).expanduser()


def complete_path(facts: Facts, text: str) -> list[str]:
    """Completions of a path; a folder ends in a slash."""
    return Places(Path(facts.workspace or "."), {}).complete(text)


def complete_folder(facts: Facts, text: str) -> list[str]:
    return [path for path in complete_path(facts, text) if path.endswith("/")]
