"""AGENTS.md: what a working directory tells every worker that reads it."""

from __future__ import annotations

import os
from pathlib import Path

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.regular import NotRegularError, read_regular

NAME = "AGENTS.md"
LARGEST = 64 * 1024


def read_guidance(workspace: Path) -> str:
    """The text of the file, or its beginning where it is too long; nothing where there is none.

    It goes to the model, so a link that leads out of the working directory is an error, not a way to read elsewhere.
    """
    path = workspace / NAME
    if not os.path.lexists(path):
        return ""
    try:
        if not Path(os.path.realpath(path, strict=True)).is_relative_to(os.path.realpath(workspace)):
            raise _unusable(path, "it leads out of the working directory")
        data = _beginning(path)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    text = data[:LARGEST].decode(errors="ignore" if len(data) > LARGEST else "replace").strip()
    cut = f"\n[... only the first {LARGEST // 1024} KiB of {NAME} ...]" if len(data) > LARGEST else ""
    return f"{NAME} of the working directory says:\n\n{text}{cut}" if text else ""


def _beginning(path: Path) -> bytes:
    """One byte more than is used, if there are so many; a pipe is not waited for."""
    try:
        return read_regular(path, LARGEST + 1)
    except (NotRegularError, IsADirectoryError):
        raise _unusable(path, "it is not a file") from None


def _unusable(path: Path, why: str) -> WorkerError:
    hint = "make it a text file of this folder, or drop 'agents_md: true'"
    return WorkerError(Mark(str(path)), f"{why}, and the worker wants to read it", hint=hint)
