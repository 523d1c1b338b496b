"""Needs that a row of a rule set has in the folder of a command: an installed tool, several packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from forge_cli.bashrules.programs.table import word_set
from forge_cli.bashrules.sets.rows import SetRow

_FOLDERS_AT_MOST = 5000
_CONSTRAINT = re.compile(rb"^//\s*(?:go:build|\+build)\b", re.MULTILINE)
_HEADER_BYTES = 4096
_NOT_BUILT = word_set("testdata vendor node_modules")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\.go")
"""A name without ``_``: behind one may stand a system, for which alone the file is built."""
_LAUNCHERS = word_set("npx pnpm yarn exec")


def unmet_need(
    row: SetRow, tokens: Sequence[str], words: Sequence[str], folder: Path, root: Path
) -> str | None:
    """Why a row that matches by ``tokens`` does not cover ``words`` in a folder below ``root``, or None."""
    match row.needs:
        case "installed":
            return _not_installed(tokens, folder, root)
        case "packages":
            return _one_package(words, folder)
        case _:
            return None


def _not_installed(tokens: Sequence[str], folder: Path, root: Path) -> str | None:
    """Why the tool of ``npx TOOL`` or ``pnpm exec TOOL`` may come from elsewhere than the project."""
    tool = next(token for token in tokens if token not in _LAUNCHERS)
    places = [place for place in (folder, *folder.parents) if place.is_relative_to(root)]
    started_by_name = tokens[0] == tool
    if started_by_name or any(
        (place / "node_modules" / ".bin" / tool).exists() for place in places
    ):
        return None
    return f"{tool} is not installed in node_modules, so that it may be downloaded"


def _one_package(words: Sequence[str], folder: Path) -> str | None:
    """Why ``go build PATTERN...`` may name one program only, which it would write; of several it keeps nothing."""
    patterns = [word for word in words[1:] if word.endswith("...")]
    found: set[str] = set()
    for pattern in patterns:
        for package in _packages(folder / pattern.removesuffix("...")):
            found.add(os.path.normpath(package))
            if len(found) > 1:
                return None
    return f"{' '.join(patterns)} may be a single program, which it would write"


def _packages(root: Path) -> Iterator[str]:
    """The folders below one that surely are packages of the same module."""
    for count, (folder, below, files) in enumerate(os.walk(root)):
        if count == _FOLDERS_AT_MOST:
            return
        if count and "go.mod" in files:
            below.clear()
            continue
        below[:] = [
            name for name in below if name not in _NOT_BUILT and not name.startswith((".", "_"))
        ]
        if any(_is_built(os.path.join(folder, name)) for name in files):
            yield folder


def _is_built(path: str) -> bool:
    """Whether a file is built on each system."""
    if not _PLAIN_NAME.fullmatch(os.path.basename(path)):
        return False
    try:
        with open(path, "rb") as file:
            return _CONSTRAINT.search(file.read(_HEADER_BYTES)) is None
    except OSError:
        return False
