"""Commands that read every file below a folder: files of secrets among them are looked for first."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from forge_cli.sandbox.protected import is_secret
from forge_cli.sandbox.secret import DOT_ENV
from forge_cli.toolsets.shell.programs.table import program

FILES_AT_MOST = 50_000
"""In a larger tree nobody can tell in time."""
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--(?:dereference-)?recursive|-d(?:recurse)?|--directories=.*")
_HIDDEN = re.compile(r"-[A-Za-z]*[u.][A-Za-z]*|--(?:hidden|unrestricted|no-ignore.*)")
_READERS = {"grep": _RECURSIVE, "egrep": _RECURSIVE, "fgrep": _RECURSIVE, "diff": _RECURSIVE, "rg": _HIDDEN}


def reads_all_below(words: Sequence[str]) -> bool:
    """Does a command read hidden files, too, that no word names?"""
    options = _READERS.get(program(words[0]))
    if options is None or not any(map(options.fullmatch, words[1:])):
        return False
    included = [word.partition("=")[2] for word in words if word.startswith("--include=")]
    return not included or any(fnmatchcase(name, glob) for glob in included for name in (DOT_ENV, f"{DOT_ENV}.x"))


def find_secret(folder: Path) -> str | None:
    """A file of secrets below a folder, or why that is not known."""
    seen = 0
    for place, _, names in os.walk(folder):
        if name := next(filter(is_secret, names), None):
            return os.path.join(os.path.relpath(place, folder), name).removeprefix("./") + ", which may hold secrets"
        seen += len(names)
        if seen > FILES_AT_MOST:
            return f"more than {FILES_AT_MOST:,} files, of which some may hold secrets"
    return None
