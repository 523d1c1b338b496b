"""Files as they were read before, with their marks, kept while their content is the same, so that no YAML is loaded."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from forge_cli import __version__
from forge_cli.core.errors import ForgeError, Mark
from forge_cli.core.marks import MarkedDict, MarkedList
from forge_cli.files.cache import forget_old
from forge_cli.files.home import DOCUMENTS, forge_home
from forge_cli.files.regular import read_own
from forge_cli.files.replace import replace_file

MOST = 200
"""Files of which something is kept."""
_DIGEST = 64


class KeptDocument:
    """What the content of a file was read as; what is missing, damaged or somebody else's was never kept.

    There is one for each file, so that what somebody deletes from a file goes from here, too.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = os.path.abspath(path)
        self._key = _digest(repr([*_reader(), path.suffix]).encode() + content)

    def find(self, file: str) -> tuple[MarkedDict, str | None] | None:
        """Data and body, with marks in ``file``."""
        with suppress(OSError, ForgeError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            entry = read_own(self._place())
            key, digest, text = entry[:_DIGEST], entry[_DIGEST : 2 * _DIGEST], entry[2 * _DIGEST :]
            if (key, digest) == (self._key, _digest(text)):
                told = json.loads(text)
                return _decode(told["data"], file), told["body"]
        return None

    def keep(self, data: MarkedDict, body: str | None) -> None:
        """A home that cannot be written only costs the time of the next start."""
        text = json.dumps({"data": _encode(data), "body": body}).encode()
        with suppress(OSError, ForgeError):
            place = self._place()
            replace_file(place, self._key + _digest(text) + text, mode=0o600)
            forget_old(place.parent, MOST)
            _clear(forge_home() / "cache" / DOCUMENTS)

    def _place(self) -> Path:
        name = _digest(os.fsencode(self._path)).decode()
        return forge_home() / DOCUMENTS / f"{name[:32]}.json"


def _clear(old: Path) -> None:
    """Remove the folder where earlier versions kept the same."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in () if old.is_symlink() else os.listdir(old):
            os.unlink(old / entry)
        os.rmdir(old)


def _digest(content: bytes) -> bytes:
    return sha256(content).hexdigest().encode()


@cache
def _reader() -> tuple[str, int, int]:
    """Who would read a file now: a forge that is being developed keeps its version."""
    status = os.stat(Path(__file__).with_name("parsing.py"))
    return __version__, status.st_mtime_ns, status.st_size


def _encode(value: Any) -> Any:
    """Data and marks as JSON; only mappings and lists become objects."""
    match value:
        case MarkedDict():
            places = {name: (*_spot(value.keys_at[name]), *_spot(value.values_at[name])) for name in value}
            return {"at": _spot(value.mark), "of": {name: [*places[name], _encode(value[name])] for name in value}}
        case MarkedList():
            items = zip(value.items_at, value, strict=True)
            return {"at": _spot(value.mark), "of": [[*_spot(mark), _encode(item)] for mark, item in items]}
        case _:
            return value


def _spot(mark: Mark) -> tuple[int, int]:
    return mark.line, mark.column


def _decode(told: Any, file: str) -> Any:
    if not isinstance(told, dict):
        return told
    mark, held = Mark(file, *told["at"]), told["of"]
    if isinstance(held, list):
        places = [Mark(file, line, column) for line, column, _ in held]
        return MarkedList([_decode(item, file) for *_, item in held], mark=mark, items_at=places)
    keys = {name: Mark(file, *entry[:2]) for name, entry in held.items()}
    values = {name: Mark(file, *entry[2:4]) for name, entry in held.items()}
    entries = [(name, _decode(entry[4], file)) for name, entry in held.items()]
    return MarkedDict(entries, mark=mark, keys=keys, values=values)
