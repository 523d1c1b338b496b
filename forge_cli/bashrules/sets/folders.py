"""Conditions of a rule set's row on the folder of a command, such as an installed tool."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from forge_cli.bashrules.programs.table import word_set
from forge_cli.bashrules.sets.rows import SetRow

_MAX_FOLDERS = 5000
_CONSTRAINT = re.compile(rb"^//\s*(?:go:build|\+build)\b", re.MULTILINE)
_HEADER_BYTES = 4096
_NOT_BUILT = word_set("testdata vendor node_modules")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\.go")
"""A name without ``_``, after which a system may be named, for which alone go builds the file."""
_LAUNCHERS = word_set("npx pnpm yarn exec")


def unmet_need(
    row: SetRow, tokens: Sequence[str], words: Sequence[str], folder: Path, root: Path
) -> str | None:
    """Return why a row that matches by ``tokens`` does not cover ``words`` in a folder."""
    match row.needs:
        case "installed":
            return _not_installed(tokens, folder, root)
        case "packages":
            return _one_package(words, folder)
        case _:
            return None


def _not_installed(tokens: Sequence[str], folder: Path, root: Path) -> str | None:
    """Return why the tool of ``npx TOOL`` or ``pnpm exec TOOL`` may come from elsewhere."""
    tool = next(token for token in tokens if token not in _LAUNCHERS)
    if tokens[0] == tool:
        return None
    for place in (folder, *folder.parents):
        if place.is_relative_to(root) and (place / "node_modules" / ".bin" / tool).exists():
            return None
    return f"{tool} is not installed in node_modules, so it may be downloaded"


def _one_package(words: Sequence[str], folder: Path) -> str | None:
    """Return why ``go build PATTERN...`` may write a program, as it does for a single package."""
    patterns = [word for word in words[1:] if word.endswith("...")]
    found: set[str] = set()
    for pattern in patterns:
        for package in _packages(folder / pattern.removesuffix("...")):
            found.add(os.path.normpath(package))
            if len(found) > 1:
                return None
    return f"{' '.join(patterns)} may be a single program, which go would write"


def _packages(root: Path) -> Iterator[str]:
    """Yield the folders below ``root`` that are packages of the same module on each system."""
    for count, (folder, below, files) in enumerate(os.walk(root)):
        if count == _MAX_FOLDERS:
            return
        if count and "go.mod" in files:
            below.clear()
            continue
        # changed in place: os.walk then skips the others
        below[:] = [name for name in below if _is_package_folder(name)]
        if any(_is_built(os.path.join(folder, name)) for name in files):
            yield folder


def _is_package_folder(name: str) -> bool:
    return name not in _NOT_BUILT and not name.startswith((".", "_"))


def _is_built(path: str) -> bool:
    """Return True if go builds this file on each system."""
    if not _PLAIN_NAME.fullmatch(os.path.basename(path)):
        return False
    try:
        with open(path, "rb") as file:
            return _CONSTRAINT.search(file.read(_HEADER_BYTES)) is None
    except OSError:
        return False
