"""Proof that forge itself wrote the approvals in a log: a keyed hash, with a key in the user's home.

The chain of hashes shows that no line was changed, but anybody can make such a chain. The proof is of the last line
that says anything about consent, and so of every line before it. A log without one is read, too; its calls ask again.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from functools import lru_cache
from pathlib import Path

from forge_cli.core.events import ApprovalDecided, ApprovalResponse
from forge_cli.core.upkeep import move_out_of_reach
from forge_cli.core.values import dataclass
from forge_cli.files.home import forge_home, make_private
from forge_cli.files.sync import sync_data
from forge_cli.record.line import Line

CONSENT = frozenset({ApprovalDecided.type, ApprovalResponse.type})
FOLDER, _KEY = "proofs", ".key"
_LENGTH = 32


@dataclass
class Proof:
    """The proof of one log; opened with the first line that needs it."""

    log: Path
    whole: bool = True
    """Was everything proven so far? Otherwise a later line would prove what somebody else wrote."""
    _fd: int = -1
    _key: bytes = field(default=b"", repr=False)

    def write(self, lines: Sequence[Line]) -> None:
        """Prove lines that were written just now; where that fails, they are not proven."""
        consent = [line for line in lines if line.type in CONSENT]
        if not consent or not self.whole:
            return
        with suppress(OSError):
            if self._fd < 0:
                self._open(proof_file(self.log))
            os.pwrite(self._fd, _mac(self._key, consent[-1]).encode(), 0)
            if any(line.type == ApprovalResponse.type for line in consent):
                sync_data(self._fd)

    def _open(self, file: Path) -> None:
        try:
            self._key = _key(file.parent)
        except FileNotFoundError:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._key = _key(file.parent)
        self._fd = move_out_of_reach(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def is_proven(log: Path, lines: Iterable[Line]) -> bool:
    """Did this user's forge write the approvals in a log, in this very file?"""
    last = next((line for line in reversed(tuple(lines)) if line.type in CONSENT), None)
    if last is None:
        return True
    file = proof_file(log)
    try:
        return hmac.compare_digest(file.read_text(), _mac(_key(file.parent), last))
    except (OSError, ValueError):
        return False


def prove(text: str) -> str:
    """The keyed hash of a text that only this user's forge can make."""
    folder = forge_home() / FOLDER
    make_private(folder)
    return hmac.digest(_key(folder), text.encode(), "sha256").hex()


def proof_file(log: Path) -> Path:
    return forge_home() / FOLDER / log.stem


def _mac(key: bytes, line: Line) -> str:
    return hmac.digest(key, line.hash.encode(), "sha256").hex()


def _key(folder: Path) -> bytes:
    """The key among the proofs, made when it is missing; nobody else may read it."""
    file = folder / _KEY
    try:
        info = os.stat(file)
        key: bytes | None = _read(str(file), (info.st_dev, info.st_ino, info.st_size, info.st_ctime_ns))
    except FileNotFoundError:
        key = None
    if key is not None and len(key) == _LENGTH:
        return key
    made = secrets.token_bytes(_LENGTH)
    temporary = file.with_name(f".{_KEY}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, made)
    finally:
        os.close(descriptor)
    try:
        if key is None:
            os.link(temporary, file)
        else:
            temporary.replace(file)
    except FileExistsError:
        return _key(folder)
    finally:
        temporary.unlink(missing_ok=True)
    return made


@lru_cache(maxsize=4)
def _read(file: str, stamp: tuple[int, int, int, int]) -> bytes:
    """As much as tells whether it is a key, once as long as nobody has written to it: each session asks for it."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _LENGTH + 1)
    finally:
        os.close(descriptor)
