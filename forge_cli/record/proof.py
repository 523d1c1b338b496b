"""Proof that forge itself wrote the approvals in a log: a keyed hash, with a key in the user's home.

The chain of hashes shows that no line was changed, but anybody can make such a chain. The proof is of the last line
that says anything about consent, and so of every line before it. A log without one is read, too; its calls ask again.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from forge_cli.core.events import ApprovalDecided, ApprovalResponse
from forge_cli.files.home import forge_home, make_private
from forge_cli.files.regular import read_regular
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

    def write(self, line: Line) -> None:
        """Prove a line that was written just now; where that fails, it is not proven."""
        if line.type not in CONSENT or not self.whole:
            return
        with suppress(OSError):
            if self._fd < 0:
                self._open(proof_file(self.log))
            os.pwrite(self._fd, _mac(self._key, line).encode(), 0)
            if line.type == ApprovalResponse.type:
                sync_data(self._fd)

    def _open(self, file: Path) -> None:
        make_private(file.parent)
        self._key = _key(file.parent)
        self._fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

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
        key: bytes | None = read_regular(file, _LENGTH + 1)
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
