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
from dataclasses import field
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

    def write(self, line: Line) -> None:
        """Prove a line that was written just now; where that fails, the line is not proven."""
        if line.type not in CONSENT or not self.whole:
            return
        with suppress(OSError):
            if self._fd < 0:
                file, flags = proof_file(self.log), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fd, self._key = move_out_of_reach(os.open(file, flags, 0o600)), _key()
            os.pwrite(self._fd, _mac(self._key, line).encode(), 0)
            if line.type == ApprovalResponse.type:
                sync_data(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def is_proven(log: Path, lines: Iterable[Line]) -> bool:
    """Did this user's forge write the approvals in a log, in this very file?"""
    last = next((line for line in reversed(tuple(lines)) if line.type in CONSENT), None)
    if last is None:
        return True
    try:
        return hmac.compare_digest(proof_file(log).read_text(), _mac(_key(), last))
    except (OSError, ValueError):
        return False


def prove(text: str) -> str:
    """The keyed hash of a text that only this user's forge can make."""
    make_private(forge_home() / FOLDER)
    return hmac.digest(_key(), text.encode(), "sha256").hex()


def proof_file(log: Path) -> Path:
    return forge_home() / FOLDER / log.stem


def _mac(key: bytes, line: Line) -> str:
    return hmac.digest(key, line.hash.encode(), "sha256").hex()


def _key() -> bytes:
    """The key in the home, made when it is missing; nobody else may read it."""
    file = forge_home() / FOLDER / _KEY
    try:
        key = file.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) == _LENGTH:
        return key
    made = secrets.token_bytes(_LENGTH)
    temporary = file.with_name(f".{_KEY}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, made)
    finally:
        os.close(descriptor)
    try:
        if key:
            temporary.replace(file)
        else:
            os.link(temporary, file)
    except FileExistsError:
        made = file.read_bytes()
    finally:
        temporary.unlink(missing_ok=True)
    return made
