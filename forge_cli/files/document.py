"""YAML as people write it, read safely: mappings and lists keep their marks, and what could surprise is refused."""

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
LOOKED_AT = 1000
"""Entries of a folder among which one of nearly the name is looked for."""

_FENCE = r"(?m)^---[ \t]*$"
_CONTROL = r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"
_INVISIBLE = r"[\u2028\u2029\ufeff]"
# The possessive `*+` never goes back, which would take long in a large file.
_EMPTY = rb"(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*|---|\.\.\.)?[ \t\r]*(?:\n|\Z))*+"


class Document(Struct, frozen=True):
    """A file that somebody wrote: its data with marks and, below front matter, its body."""

    data: MarkedDict
    body: str | None
    file: str
    digest: str = ""
    """The hash of the bytes that were read."""


def read_document(path: Path, *, may_be_empty: bool = False) -> Document:
    """Read a YAML file, or one with front matter (.md, .worker)."""
    file = str(path)
    raw = _read(path, file)
    # An empty file needs no PyYAML, whose import takes time.
    if may_be_empty and re.fullmatch(_EMPTY, raw):
        return Document(MarkedDict(mark=Mark(file), keys={}, values={}), None, file)
    has_front_matter = path.suffix.lower() in FRONT_MATTER_SUFFIXES
    front, body = split_front_matter(raw, file) if has_front_matter else (raw, None)
    return Document(parse_document(front, file), body, file, sha256(raw).hexdigest())


def split_front_matter(text: str | bytes, file: str) -> tuple[str, str]:
    """The YAML between two ``---`` lines, and the body below them.

    The first fence stays with the YAML, to which it is the start of a document: so the lines count from the top.
    """
    text = _decoded(text, file)
    fence = re.compile(_FENCE)
    opening = fence.match(text)
    if opening is None:
        problem = "no front matter here; begin the file with a line '---', then the keys, then another line '---'"
        raise WorkerError(Mark(file), problem)
    closing = fence.search(text, opening.end())
    if closing is None:
        raise WorkerError(
            Mark(file),
            "the front matter that opens here is never closed; add a line '---' below it",
        )
    # One more than the fence: the newline behind it.
    return text[: closing.start()], text[closing.end() + 1 :]


def parse_document(text: str | bytes, file: str) -> MarkedDict:
    """Read one YAML mapping; a mistake in it is a WorkerError that says where and what to do."""
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
        address = file.startswith(("http:/", "https:/"))
        near = None if address else _file_beside(path)
        remedy = f"did you mean '{visible(near)}'?" if near else "check the path"
        problem = "no such file; " + (
            "save what is at this address to a file" if address else remedy
        )
    except IsADirectoryError:
        problem = "this is a folder; name a file in it"
    except PermissionError:
        problem = "you may not read this file; check its owner and mode"
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or error}); check the path"
    raise WorkerError(None, f"{file}: {problem}")


def _file_beside(path: Path) -> str | None:
    """The file of nearly that name in the same folder, such as one that ends in .yaml where .yml was written."""
    try:
        found = islice(path.parent.iterdir(), LOOKED_AT)
        beside = {
            each.name: each.stem for each in found if each.suffix in SUFFIXES and each.is_file()
        }
    except (OSError, ValueError):
        return None
    same_stem = sorted(
        name for name, stem in beside.items() if path.stem == stem or path.name == stem
    )
    near = nearest(path.stem, beside.values())
    return next(iter(same_stem), None) or next(
        (name for name, stem in beside.items() if stem == near), None
    )


def _decoded(text: str | bytes, file: str) -> str:
    """Text with one kind of line end, no byte order mark and no control characters."""
    if len(text) > MAX_BYTES:
        raise WorkerError(
            Mark(file), f"larger than {MAX_BYTES // 1024} KiB; move long text to files of its own"
        )
    text = _lines(text if isinstance(text, str) else decode_utf8(text, Mark(file)))
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
