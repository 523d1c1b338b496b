"""Places of errors: in a file with line and column, or in a path from an option."""

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
    """Return the error of a file as a whole."""
    return WorkerError(Mark(str(file)), problem, hint=hint)


def cannot_read(
    file: Path | str, error: OSError, what: str = "it ", *, hint: str | None = None
) -> WorkerError:
    """Return the error of a file that cannot be read."""
    return whole_file(file, f"{what}cannot be read: {error.strerror}", hint=hint)


def decode_utf8(raw: bytes, where: Mark) -> str:
    """Decode a file or a line of it, without a byte order mark; ``where`` is its start."""
    try:
        return raw.decode().removeprefix(_BOM)
    except UnicodeDecodeError as error:
        offset = ""
        if where == Mark(where.file):
            offset = f" at offset {error.start}"
        problem = f"byte 0x{raw[error.start]:02x}{offset} is not UTF-8; save the file as UTF-8"
        raise WorkerError(place_of(error, where), problem) from None


def parse_json(raw: bytes | str, where: Mark, problem: str = "this is not JSON") -> Any:
    """Parse the JSON of a file, or of a line of it; ``problem`` begins the message of an error."""
    text = raw if isinstance(raw, str) else decode_utf8(raw, where)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise WorkerError(place_of(error, where), f"{problem}: {why}") from None


def read_kept(file: Path, problem: str, hint: str) -> dict[str, Any]:
    """Read a JSON object that forge keeps in a file; return an empty one if there is no file."""
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
    """Return the place of an error in a text that begins at ``where``; ``where`` if unknown."""
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
    """Return the place at the end of a text that begins at ``where``."""
    lines = before.count("\n")
    last = len(before) - before.rfind("\n")
    if not lines:
        last = where.column + len(before)
    return Mark(where.file, where.line + lines, last)


def require_folder(option: str, path: Path, named: str | None = None) -> None:
    """Raise UsageError if a path is not a folder; ``named`` is its spelling in the option."""
    if not os.path.isdir(path):
        raise wrong_path(option, path, "folder", named)


def wrong_path(option: str, path: Path, wanted: str, named: str | None = None) -> UsageError:
    """Return the error of an option whose path is missing or of the wrong kind."""
    shown = str(path) if named is None else named
    label = f"{option} {shown}".strip()
    if os.path.exists(path):
        return UsageError(f"{label}: that is not a {wanted}", hint=f"name a {wanted}")
    hint = f"check the path; it is looked for in {path.absolute().parent}"
    return UsageError(f"{label}: there is no such {wanted}", hint=hint)
