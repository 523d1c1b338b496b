"""The place of an error: in a file, with its line and column, or in a path that an option names."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from forge_cli.core.errors import Mark, UsageError, WorkerError

_BOM = "\ufeff"
_IN_TOML = re.compile(r" \(at line (\d+), column (\d+)\)")


def whole_file(file: Path | str, problem: str, *, hint: str | None = None) -> WorkerError:
    """An error of a file as a whole: it cannot be read, or is something else."""
    return WorkerError(Mark(str(file)), problem, hint=hint)


def cannot_read(
    file: Path | str, error: OSError, what: str = "it ", *, hint: str | None = None
) -> WorkerError:
    return whole_file(file, f"{what}cannot be read: {error.strerror}", hint=hint)


def decode_utf8(raw: bytes, where: Mark) -> str:
    """The text of a file, or of a line of one; ``where`` is its first character. A byte order mark is left out."""
    try:
        return raw.decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        offset = f" at offset {error.start}" if where == Mark(where.file) else ""
        problem = f"byte 0x{raw[error.start]:02x}{offset} is not UTF-8; save the file as UTF-8"
        raise WorkerError(place_of(error, where), problem) from None


def parse_json(raw: bytes | str, where: Mark, problem: str = "this is not JSON") -> Any:
    """The JSON of a file, or of a line of one; ``problem`` is the sentence where it is not that."""
    text = raw if isinstance(raw, str) else decode_utf8(raw, where)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise WorkerError(place_of(error, where), f"{problem}: {why}") from None


def read_kept(file: Path, problem: str, hint: str) -> dict[str, Any]:
    """The JSON object in a file that forge keeps; nothing where there is none. ``problem`` says what else it is."""
    try:
        found = parse_json(file.read_bytes(), Mark(str(file)), problem)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise cannot_read(file, error) from None
    except WorkerError as error:
        raise WorkerError(error.where, error.message, hint=hint) from None
    if not isinstance(found, dict):
        raise whole_file(file, problem, hint=hint)
    return found


def place_of(error: Exception, where: Mark) -> Mark:
    """The place of an error in a text that begins at ``where``; its beginning where that is not known."""
    match error:
        case UnicodeDecodeError():
            before = error.object[: error.start].decode("utf-8", "replace").removeprefix(_BOM)
            # Lines count as in the text that is parsed, which has one kind of line end.
            return place_in(before.replace("\r\n", "\n").replace("\r", "\n"), where)
        case json.JSONDecodeError():
            return place_in(error.doc[: error.pos], where)
        case ValueError() if found := _IN_TOML.search(str(error)):
            return Mark(where.file, where.line + int(found[1]) - 1, int(found[2]))
        case _:
            return where


def place_in(before: str, where: Mark) -> Mark:
    """The place behind a text that begins at ``where``."""
    lines = before.count("\n")
    last = len(before) - before.rfind("\n")
    return Mark(where.file, where.line + lines, last if lines else where.column + len(before))


def require_folder(option: str, path: Path, named: str | None = None) -> None:
    """Refuse what is not a folder; ``named`` is how the option has it, where that is not the path itself."""
    if not os.path.isdir(path):
        raise wrong_path(option, path, "folder", named)


def wrong_path(option: str, path: Path, wanted: str, named: str | None = None) -> UsageError:
    """The error for an option whose path is missing, or is not the file or folder that it wants."""
    shown = str(path) if named is None else named
    label = f"{option} {shown}".strip()
    if os.path.exists(path):
        return UsageError(f"{label}: that is not a {wanted}", hint=f"name a {wanted}")
    hint = f"check the path; it is looked for in {path.absolute().parent}"
    return UsageError(f"{label}: there is no such {wanted}", hint=hint)
