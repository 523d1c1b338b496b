"""Files by typed names: relative to the workspace, ``/zone/...``, ``~/...`` or absolute."""

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
"""``@path`` or ``@"a path"`` at the beginning of a word."""
MAX_OFFERED = 50
"""Maximum names to offer."""
MAX_LISTED = 100_000
"""Files of the workspace to search."""
LIST_LIFETIME = 5.0
"""Seconds for which a list of files is used again."""
PROGRAM_TIMEOUT = 2.0
"""Seconds that an external program may take."""
# A path as terminals insert it: in quotes, or with backslashes before blanks.
_IMAGE = re.compile(r"""(?<!\S)(?:'([^'\n]+)'|"([^"\n]+)"|((?:\\.|[^\s\\'"])+))(?!\S)""")
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_PUNCTUATION = ".,;:!?)"
_CLIPBOARDS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),  # Wayland
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),  # X11
    ("pngpaste", "-"),  # macOS
)


class Places:
    """The folders whose files a conversation can name."""

    def __init__(self, workspace: Path, zones: Mapping[str, Path]) -> None:
        self.workspace = workspace
        self.zones = zones
        self._listed: tuple[float, Sequence[str]] = float("-inf"), ()

    def find(self, name: str) -> Path:
        """Return the file that a typed name means; it may not exist."""
        return named_file(name, self.workspace, self.zones, user_home())

    def complete(self, begun: str) -> list[str]:
        """Return the paths that begin with ``begun``; folders end with a slash.

        Hidden files are included only if a dot was typed.
        """
        folder, slash, start = begun.rpartition("/")
        found = []
        if begun.count("/") == 1:  # a zone is only the first part of a path
            found = [f"/{zone}/" for zone in self.zones if f"/{zone}".startswith(begun)]
        if slash:
            place = self.find(folder + slash)
        else:
            place = self.workspace
        try:
            with os.scandir(place) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            inside = []
        for entry in inside:
            is_hidden = entry.name.startswith(".") and not start.startswith(".")
            if entry.name.startswith(start) and not is_hidden:
                found.append(f"{folder}{slash}{entry.name}{'/' * entry.is_dir()}")
        return found[:MAX_OFFERED]

    def search(self, begun: str) -> list[str]:
        """Return paths that begin with ``begun``, then files that contain it, the best first."""
        begins = self.complete(begun)
        if not begun or begun[0] in "/~":  # only files of the workspace are listed
            return begins
        # The letters in this order, with anything between them.
        letters = re.compile(".*?".join(map(re.escape, begun.casefold())))
        ranked = []
        for name in self._files():
            if rank := _rank(begun.casefold(), letters, name):
                ranked.append((rank, name))
        best = [name for _, name in heapq.nsmallest(MAX_OFFERED, ranked)]
        return list(dict.fromkeys([*begins, *best]))[:MAX_OFFERED]

    def _files(self) -> Sequence[str]:
        """Return the files of the workspace that are neither hidden nor ignored by git."""
        since, names = self._listed
        if time.monotonic() - since > LIST_LIFETIME:  # listing a large folder takes seconds
            names = _list_files(self.workspace)
            self._listed = time.monotonic(), names
        return names

    def attachments(self, text: str) -> Iterator[Attachment]:
        """Yield the files that a text mentions with ``@``, and images whose path is in it."""
        files = [self._mentioned(name) for name in _mentions(text)]
        for found in _IMAGE.findall(text):
            # Terminals insert the path of a dropped file, with escaped blanks.
            image = self.find(re.sub(r"\\(.)", r"\1", "".join(found)))
            if image.suffix.lower() in _IMAGES:
                files.append(image)
        for file in dict.fromkeys(files):
            if file and file.is_file():
                with suppress(UnknownKind):
                    yield read_attachment(file)

    def warnings(self, text: str) -> Iterator[str]:
        """Yield a warning for each mention that looks like a file but is sent as text only."""
        for name in _mentions(text):
            if file := self._mentioned(name):
                try:
                    read_attachment(file)
                except UnknownKind:
                    yield f"@{visible(file.name)} is {NEITHER}, so it is sent as text only"
                continue
            name = name.rstrip(_PUNCTUATION)
            if not name or self.find(name).exists():
                continue
            near = next(iter(self.search(name)), "")
            begins = near.rpartition("/")[2].casefold().startswith(name.casefold())
            if "/" in name or "." in name or begins:  # else it may be the name of a person
                hint = ""
                if near:
                    hint = f"; did you mean @{visible(near)}?"
                yield f"@{visible(name)} is not a file, so it is sent as text only{hint}"

    def _mentioned(self, name: str) -> Path | None:
        for each in (name, name.rstrip(_PUNCTUATION)):  # the sentence may end behind it
            if (file := self.find(each)).is_file():
                return file
        return None


def _mentions(text: str) -> list[str]:
    return [quoted or word for quoted, word in MENTION.findall(text)]


def _rank(begun: str, letters: re.Pattern[str], name: str) -> tuple[int, int] | None:
    """Return how well a file fits the typed text, less is better; None if it does not fit."""
    path = name.casefold()
    last = path.rpartition("/")[2]
    fits = (
        last.startswith(begun),
        begun in last,
        begun in path,
        letters.search(last),
        letters.search(path),
    )
    for place, is_fit in enumerate(fits):
        if is_fit:
            return place, len(path)
    return None


def _list_files(folder: Path) -> Sequence[str]:
    """List files with ripgrep; without it, walk the folder, which takes longer."""
    if ripgrep := shutil.which("rg"):
        # A .gitignore file counts outside of a git repository, too.
        command = [ripgrep, "--no-config", "--files", "--no-require-git", "--sort=path"]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                timeout=PROGRAM_TIMEOUT,
                stdin=subprocess.DEVNULL,
            )
            return os.fsdecode(done.stdout).splitlines()[:MAX_LISTED]
        except (OSError, subprocess.TimeoutExpired):
            pass
    batches = FileWalk(SearchStart(folder), Include()).batches()
    walked = map(os.fsdecode, chain.from_iterable(batch.files for batch in batches))
    return [name for name in islice(walked, MAX_LISTED) if not re.search(r"(^|/)\.", name)]


def pasted_image() -> Attachment | None:
    """Return the image in the clipboard, or None, also if no program can read it."""
    for command in _CLIPBOARDS:
        if shutil.which(command[0]):
            try:
                data = subprocess.run(
                    command,
                    capture_output=True,
                    timeout=PROGRAM_TIMEOUT,
                    stdin=subprocess.DEVNULL,
                ).stdout
            except (OSError, subprocess.TimeoutExpired):
                continue
            if media_type(data).startswith("image/"):
                return Attachment("pasted.png", media_type(data), data)
    return None


def typed_path(facts: Facts, text: str) -> Path:
    """Return the file or folder that the argument of a command names."""
    return Path(facts.workspace or ".") / Path(text).expanduser()


def complete_path(facts: Facts, text: str) -> list[str]:
    """Return completions of a path; folders end with a slash."""
    return Places(Path(facts.workspace or "."), {}).complete(text)


def complete_folder(facts: Facts, text: str) -> list[str]:
    """Return completions that are folders."""
    return [path for path in complete_path(facts, text) if path.endswith("/")]
