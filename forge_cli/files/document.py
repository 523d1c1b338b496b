"""Safe reading of YAML files: values keep their marks, and surprising YAML is refused."""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import nearest, visible
from forge_cli.files.places import decode_utf8, place_in
from forge_cli.files.regular import NotRegularError, read_regular
from forge_cli.schema.marks import MarkedDict

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 256 * 1024
FRONT_MATTER_SUFFIXES = frozenset({".md", ".worker"})
SUFFIXES = FRONT_MATTER_SUFFIXES | {".yaml", ".yml"}
_MAX_LOOKED_AT = 1000
"""The most entries of a folder that are searched for a similar name."""

_FENCE = r"(?m)^---[ \t]*$"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
_INVISIBLE = r"[\u2028\u2029\ufeff]"
# The possessive `*+` never goes back, which would take long in a large file.
_EMPTY = rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*|---|\.\.\.)?[ \t\r]*(?:\n|\Z))*+"


class Document(Struct, frozen=True):
    """A parsed file: data with marks and, after front matter, a body."""

    data: MarkedDict
    body: str | None
    file: str
    digest: str = ""
    """The hash of the file's bytes."""


def read_document(path: Path, *, may_be_empty: bool = False) -> Document:
    """Read a YAML file, or a file with front matter (.md, .worker)."""
    file = str(path)
    raw = _read(path, file)
    # An empty file needs no PyYAML, whose import takes time.
    if may_be_empty and re.fullmatch(_EMPTY, raw):
        return Document(MarkedDict(mark=Mark(file), keys={}, values={}), None, file)
    front: str | bytes = raw
    body: str | None = None
    if path.suffix.lower() in FRONT_MATTER_SUFFIXES:
        front, body = split_front_matter(raw, file)
    return Document(parse_document(front, file), body, file, sha256(raw).hexdigest())


def split_front_matter(text: str | bytes, file: str) -> tuple[str, str]:
    """Split a file into the YAML between two ``---`` lines and the body below.

    The first fence stays in the YAML, where it starts a document, so that line numbers are correct.
    """
    text = _decoded(text, file)
    fence = re.compile(_FENCE)
    opening = fence.match(text)
    if opening is None:
        problem = (
            "no front matter here; begin the file with a line '---', then the keys, "
            "then another line '---'"
        )
        raise WorkerError(Mark(file), problem)
    closing = fence.search(text, opening.end())
    if closing is None:
        raise WorkerError(
            Mark(file),
            "the front matter is never closed; add a line '---' below it",
        )
    # One more than the fence: the newline behind it.
    return text[: closing.start()], text[closing.end() + 1 :]


def parse_document(text: str | bytes, file: str) -> MarkedDict:
    """Parse a YAML mapping; raise WorkerError with the place and remedy of a mistake."""
    text = _decoded(text, file)
    if found := re.search(_INVISIBLE, text):
        problem = (
            f"{_code(found)} is invisible; delete it, or write it as an escape in double quotes"
        )
        raise WorkerError(place_in(text[: found.start()], Mark(file)), problem)
    from forge_cli.files.parsing import parse_mapping

    return parse_mapping(text, file)


def _read(path: Path, file: str) -> bytes:
    try:
        return read_regular(path, MAX_BYTES + 1)
    except NotRegularError:
        problem = "not a regular file; save the text to a file and name that"
    except (FileNotFoundError, NotADirectoryError):
        problem = f"no such file; {_remedy_of_missing(path, file)}"
    except IsADirectoryError:
        problem = "this is a folder; name a file in it"
    except PermissionError:
        problem = "permission denied; check the owner and mode of the file"
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or error}); check the path"
    raise WorkerError(None, f"{file}: {problem}")


def _remedy_of_missing(path: Path, file: str) -> str:
    if file.startswith(("http:/", "https:/")):
        return "save what is at this address to a file"
    near = _file_beside(path)
    if near:
        return f"did you mean '{visible(near)}'?"
    return "check the path"


def _file_beside(path: Path) -> str | None:
    """Return a file with a similar name in the same folder, such as .yaml instead of .yml."""
    try:
        found = islice(path.parent.iterdir(), _MAX_LOOKED_AT)
        beside = {
            each.name: each.stem for each in found if each.suffix in SUFFIXES and each.is_file()
        }
    except (OSError, ValueError):
        return None
    for name in sorted(beside):
        if beside[name] in (path.stem, path.name):
            return name
    near = nearest(path.stem, beside.values())
    for name, stem in beside.items():
        if stem == near:
            return name
    return None


def _decoded(text: str | bytes, file: str) -> str:
    """Return text with plain line ends, without a byte order mark or control characters."""
    if len(text) > MAX_BYTES:
        raise WorkerError(
            Mark(file), f"larger than {MAX_BYTES // 1024} KiB; move long text to separate files"
        )
    if isinstance(text, bytes):
        text = decode_utf8(text, Mark(file))
    text = _lines(text)
    if found := re.search(_CONTROL, text):
        problem = (
            f"{_code(found)} is not text; delete it, or write it as an escape in double quotes"
        )
        raise WorkerError(place_in(text[: found.start()], Mark(file)), problem)
    return text


def _lines(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _code(found: re.Match[str]) -> str:
    return f"the character U+{ord(found[0]):04X}"
