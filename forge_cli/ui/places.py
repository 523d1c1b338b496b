"""Files by the names that people type: relative to the working directory, ``/zone/...``, ``~/...`` or absolute."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from forge_cli.core.messages import Attachment
from forge_cli.files.attachment import read_attachment
from forge_cli.files.home import user_home
from forge_cli.sandbox.zones.named import named_file
from forge_cli.ui.facts import Facts

MENTION = re.compile(r'(?<![^\s(])@(?:"([^"\n]+)"|([^\s"]+))')
"""``@path``, or ``@"a path"``, that begins a word."""
MOST = 50
"""Names that are offered at once."""


class Places:
    """Where the files of a conversation lie."""

    def __init__(self, workspace: Path, zones: Mapping[str, Path]) -> None:
        self.workspace = workspace
        self.zones = zones

    def find(self, name: str) -> Path:
        """The file that a name means; it need not exist."""
        return named_file(name, self.workspace, self.zones, user_home())

    def complete(self, begun: str) -> list[str]:
        """The names that begin so, folders with a slash at their end; hidden ones only where a dot was typed."""
        folder, slash, start = begun.rpartition("/")
        found = [f"/{zone}/" for zone in self.zones if f"/{zone}".startswith(begun)] if begun.count("/") == 1 else []
        place = self.find(folder + slash) if slash else self.workspace
        try:
            with os.scandir(place) as entries:
                names = sorted((entry.name, entry.is_dir()) for entry in entries if entry.name.startswith(start))
        except OSError:
            names = []
        shown = [(name, is_dir) for name, is_dir in names if start.startswith(".") or not name.startswith(".")]
        return [*found, *(f"{folder}{slash}{name}{'/' * is_dir}" for name, is_dir in shown)][:MOST]

    def attachments(self, text: str) -> Iterator[Attachment]:
        """The files that a text mentions; what is not the name of a file is only text."""
        seen: set[Path] = set()
        for quoted, word in MENTION.findall(text):
            for name in dict.fromkeys((quoted or word, (quoted or word).rstrip(".,;:!?)"))):
                file = self.find(name)
                if file.is_file() and file not in seen:
                    seen.add(file)
                    yield read_attachment(file)
                    break


def typed_path(facts: Facts, text: str) -> Path:
    """The file or folder that is meant."""
    return Path(facts.workspace or ".") / Path(text).expanduser()


def complete_path(facts: Facts, text: str) -> list[str]:
    """What a path that begins so could become; a folder ends in a slash."""
    folder, slash, start = text.rpartition("/")
    try:
        found = sorted(typed_path(facts, f"{folder}{slash}").iterdir())
    except (OSError, RuntimeError):
        return []
    names = [path.name + ("/" if path.is_dir() else "") for path in found if path.name.startswith(start)]
    return [f"{folder}{slash}{name}" for name in names if start or not name.startswith(".")]


def complete_folder(facts: Facts, text: str) -> list[str]:
    return [path for path in complete_path(facts, text) if path.endswith("/")]
