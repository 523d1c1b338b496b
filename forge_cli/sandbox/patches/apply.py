"""Carrying out a plan: every file or none."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256

from forge_cli.core.errors import Stale, ToolError
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.patches.model import Change

Attributes = Mapping[str, os.stat_result | None]
"""What the files had besides their content before anything was carried out."""


def reader(sandbox: Sandbox) -> Callable[[str], bytes | None]:
    """What ``plan`` reads by: the content of a file, or None where there is none."""

    def read(path: str) -> bytes | None:
        return sandbox.read_bytes(path) if sandbox.exists(path) else None

    return read


def stamp(changes: Sequence[Change]) -> str:
    """Equal for plans that change the same files from the same content to the same content."""
    digest = sha256()
    for change in changes:
        for part in (change.real.encode(), change.before, change.after):
            digest.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    return digest.hexdigest()


def apply(changes: Sequence[Change], sandbox: Sandbox) -> None:
    """Write and delete what the plan says, if every file is as it was planned; after a failure all is as before."""
    read = reader(sandbox)
    for change in changes:
        _check(change, read, sandbox)
    attributes = {path: sandbox.attributes(path) for change in changes for path in (change.real, change.origin) if path}
    done: list[Change] = []
    folders: list[str] = []
    try:
        for change in sorted(changes, key=lambda change: change.after is None):
            folders += _missing_folders(change.real, sandbox) if change.after is not None else []
            _carry_out(change, attributes, sandbox)
            done.append(change)
    except BaseException as error:
        lost = _undo(done, folders, attributes, sandbox)
        if not isinstance(error, ToolError | OSError):
            raise
        kind = Stale if isinstance(error, Stale) and not lost else ToolError
        raise kind(f"{error}; {_state(lost)}") from error


def _check(change: Change, read: Callable[[str], bytes | None], sandbox: Sandbox) -> None:
    if sandbox.resolve(change.path) != change.real or read(change.path) != change.before:
        raise Stale(f"{shown(change.path)} has changed since the patch was planned")
    if change.after is None and sandbox.stat(change.path, follow=False).kind == "link":
        raise ToolError(
            f"{shown(change.path)} is a link, which a patch neither deletes nor moves; name the file itself"
        )


def _missing_folders(real: str, sandbox: Sandbox) -> list[str]:
    names = real.split("/")
    above = ["/".join(names[:count]) for count in range(3, len(names))]
    return [folder for folder in above if not sandbox.exists(folder)]


def _carry_out(change: Change, attributes: Attributes, sandbox: Sandbox) -> None:
    if change.after is None:
        sandbox.delete(change.path, expected=change.real)
    else:
        like = attributes[change.origin] if change.origin else None
        sandbox.write_bytes(change.path, change.after, expected=change.real, like=like)


def _undo(done: Sequence[Change], folders: Sequence[str], attributes: Attributes, sandbox: Sandbox) -> list[str]:
    """Put back what was there, and name the files where that failed."""
    lost = []
    for change in reversed(done):
        try:
            if change.before is None:
                sandbox.delete(change.real, expected=change.real)
            else:
                sandbox.write_bytes(change.real, change.before, expected=change.real, like=attributes[change.real])
        except (ToolError, OSError):
            lost.append(change.path)
    for folder in sorted(folders, reverse=True):
        with suppress(ToolError, OSError):
            sandbox.delete(folder)
    return lost


def _state(lost: Sequence[str]) -> str:
    if not lost:
        return "nothing was changed"
    return f"what was already written could not be undone in {', '.join(map(shown, lost))}: look at these files"
