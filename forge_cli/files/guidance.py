"""AGENTS.md, else CLAUDE.md: what a repository tells every worker, from its top down to the working directory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import visible
from forge_cli.files.regular import NotRegularError, read_regular
from forge_cli.files.repository import Guidance, guidance_files, repository_top

LARGEST = 64 * 1024
"""Bytes of all files together; the nearest is read first."""

MOST_READ = 16 * LARGEST
"""Bytes of one file, by whose hash it is trusted."""

IsTrusted = Callable[[Path, bytes], bool]


def guidance_for(
    wanted: bool | None, workspace: Path, home: Path, *, told: bool | None = None
) -> Guidance:
    """The files that a worker is told: that it wants, or, where it leaves it open, those that are trusted as it is now.

    ``told`` is what holds in the place of trust for a worker that leaves it open, as when a session is repeated.
    """
    wanted = told if wanted is None else wanted
    if wanted is False:
        return Guidance()
    # If the worker itself says so, or the session that is repeated did, no file needs trust.
    if wanted:
        return read_guidance(workspace)

    def is_trusted(file: Path, content: bytes) -> bool:
        from forge_cli.files.trust import TrustStore

        return TrustStore(home).holds_file(file, content)

    return read_guidance(workspace, is_trusted)


def read_guidance(workspace: Path, is_trusted: IsTrusted | None = None) -> Guidance:
    """The texts of all files, or their beginnings where they are too long.

    It goes to the model, so a link that leads out of the repository is an error, not a way to read elsewhere; with
    ``is_trusted`` it is only a file that is left out.
    """
    texts: list[str] = []
    files: list[Path] = []
    untrusted: list[Path] = []
    room = LARGEST
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
    return (
        "the repository" if folder == top else f"the folder {visible(str(folder.relative_to(top)))}"
    )


def _cut(data: bytes, room: int, name: str) -> str:
    # A cut can fall inside a character, whose bytes are then dropped and not shown as wrong ones.
    text = data[:room].decode(errors="ignore" if len(data) > room else "replace").strip()
    if len(data) <= room:
        return text
    return f"{text}\n[... only the first {room // 1024} KiB of {name} ...]"


def _read(path: Path, top: Path, workspace: Path) -> bytes:
    """The whole file, for its hash, unless it is huge; a pipe is not waited for."""
    try:
        if not Path(os.path.realpath(path, strict=True)).is_relative_to(os.path.realpath(top)):
            around = "working directory" if top == workspace else "repository"
            raise _unusable(path, f"it leads out of the {around}")
        return read_regular(path, MOST_READ)
    except (NotRegularError, IsADirectoryError):
        raise _unusable(path, "it is not a file") from None
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None


def _unusable(path: Path, why: str) -> WorkerError:
    hint = "make it a text file of this folder, or drop 'agents_md: true'"
    return WorkerError(Mark(str(path)), f"{why}, and the worker wants to read it", hint=hint)
