"""AGENTS.md, else CLAUDE.md: instructions of a repository for every worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import visible
from forge_cli.files.regular import NotRegularError, read_regular
from forge_cli.files.repository import Guidance, guidance_files, repository_top

MAX_TOTAL = 64 * 1024
"""The most bytes of all files together; the nearest file is read first."""

_MAX_FILE = 16 * MAX_TOTAL
"""The most bytes of one file, which is read whole because trust depends on its hash."""

IsTrusted = Callable[[Path, bytes], bool]


def guidance_for(
    wanted: bool | None, workspace: Path, home: Path, *, told: bool | None = None
) -> Guidance:
    """Return the guidance files for a worker.

    If the worker does not decide (``wanted`` is None), trusted files are used. ``told`` replaces
    trust, for example when a session is replayed.
    """
    wanted = told if wanted is None else wanted
    if wanted is False:
        return Guidance()
    # Neither the worker's own setting nor a replayed session needs trust.
    if wanted:
        return read_guidance(workspace)

    def is_trusted(file: Path, content: bytes) -> bool:
        from forge_cli.files.trust import TrustStore

        return TrustStore(home).holds_file(file, content)

    return read_guidance(workspace, is_trusted)


def read_guidance(workspace: Path, is_trusted: IsTrusted | None = None) -> Guidance:
    """Read all files; long ones are cut at the end.

    The text goes to the model, so a link out of the repository is an error and not a way to read
    other files. With ``is_trusted`` such a file is only left out.
    """
    texts: list[str] = []
    files: list[Path] = []
    untrusted: list[Path] = []
    room = MAX_TOTAL
    top = repository_top(workspace)
    # The nearest folder first: if the room runs out, the furthest is cut.
    for path in reversed(guidance_files(workspace)):
        try:
            data = _read(path, top, workspace)
        except WorkerError:
            if is_trusted is None:
                raise
            continue
        if is_trusted and not is_trusted(path, data):
            untrusted.append(path)
            continue
        files.append(path)
        if text := _cut(data, room, path.name):
            texts.append(f"{path.name} of {_place(path.parent, top, workspace)} says:\n\n{text}")
        room -= min(room, len(data))
    return Guidance(
        "\n\n".join(reversed(texts)), tuple(reversed(files)), tuple(reversed(untrusted))
    )


def _place(folder: Path, top: Path, workspace: Path) -> str:
    if folder == workspace:
        return "the working directory"
    if folder == top:
        return "the repository"
    return f"the folder {visible(str(folder.relative_to(top)))}"


def _cut(data: bytes, room: int, name: str) -> str:
    # After a cut inside a character, its first bytes must not look like an error.
    errors = "ignore" if len(data) > room else "replace"
    text = data[:room].decode(errors=errors).strip()
    if len(data) <= room:
        return text
    return f"{text}\n[... only the first {room // 1024} KiB of {name} ...]"


def _read(path: Path, top: Path, workspace: Path) -> bytes:
    """Read the whole file for its hash, unless it is huge or not a regular file."""
    try:
        if not Path(os.path.realpath(path, strict=True)).is_relative_to(os.path.realpath(top)):
            around = "working directory" if top == workspace else "repository"
            raise _unusable(path, f"it leads out of the {around}")
        return read_regular(path, _MAX_FILE)
    except (NotRegularError, IsADirectoryError):
        raise _unusable(path, "it is not a file") from None
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None


def _unusable(path: Path, why: str) -> WorkerError:
    hint = "make it a text file in this folder, or remove 'agents_md: true'"
    return WorkerError(Mark(str(path)), f"{why}, but the worker requires it", hint=hint)
