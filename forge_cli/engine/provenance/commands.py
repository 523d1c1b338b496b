"""What a shell line can have read: files, and the network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from forge_cli.bashrules.face import read
from forge_cli.engine.provenance.data import load_table
from forge_cli.engine.provenance.named import command_words, only_reads
from forge_cli.engine.provenance.places import PlaceRead, zone_of
from forge_cli.engine.provenance.words import is_here

_READERS = frozenset(("cat", "head", "tail", "nl", "grep", "rg"))
"""Programs whose output is that of the files that they name."""
_RECURSIVE = frozenset(("grep", "rg", "find", "ls", "tree", "git"))


def first_words(line: str) -> Iterator[str]:
    """Yield each command of a line as text."""
    for words in command_words(read(line)):
        yield " ".join(words)


def stays_here(line: str) -> bool:
    """Return True if no command of a line can reach the network."""
    parsed = read(line)
    return parsed.unreadable is None and all(map(_is_local, command_words(parsed)))


def shows_files(line: str) -> bool:
    """Return True if the output of a line is the text of the files that it names."""
    parsed = read(line)
    programs = [os.path.basename(words[0]) for words in command_words(parsed)]
    # The cheap question first: only_reads judges the line.
    return _READERS.issuperset(programs) and only_reads(parsed)


def _is_local(words: Sequence[str]) -> bool:
    table = _local_programs()
    program = os.path.basename(words[0])
    if program in ("curl", "wget") and is_here(" ".join(words[1:])):
        return True
    if program in ("python", "python3") and words[1:2] == ["-m"]:
        words = words[2:]
        program = words[0] if words else ""
    if program in table["local"]:
        return True
    if program == "git":
        words = _without_options(words)
    rest = [word for word in words[1:] if not word.startswith("-")]
    return bool(rest) and rest[0] in table["some"].get(program, ())


def _without_options(words: Sequence[str]) -> list[str]:
    """Return the words of a git command without ``-C FOLDER`` and ``-c KEY=VALUE``."""
    found: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in ("-C", "-c"):
            skips = True
        else:
            found.append(word)
    return found


@cache
def _local_programs() -> Mapping[str, Any]:
    table: Mapping[str, Any] = load_table("commands.yaml")
    return table


def places_of_line(line: str, zones: Mapping[str, Path], folder: Path) -> Iterator[PlaceRead]:
    """Yield the existing files and folders that a line names, with their zones."""
    for words in command_words(read(line)):
        named = False
        for word in words[1:]:
            path = Path(os.path.realpath(folder / os.path.expanduser(word)))
            if word.startswith("-") or not os.path.lexists(path):
                continue
            named = True
            yield PlaceRead(path, zone_of(path, zones))
        if not named and os.path.basename(words[0]) in _RECURSIVE:
            real = Path(os.path.realpath(folder))
            yield PlaceRead(real, zone_of(real, zones))
