"""Proof that this user's forge wrote the consent in a log: a keyed hash in each such line, with a key in the home.

The chain of hashes shows that no line was changed, but anybody can make such a chain. A line of consent without a proof
is read, too; its call asks again.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from forge_cli.files.home import forge_home, make_private
from forge_cli.files.lock import hold_file_lock
from forge_cli.files.regular import read_regular
from forge_cli.files.replace import replace_file
from forge_cli.record.line import Line
from forge_cli.record.places import sessions_folder

_LENGTH = 32


@dataclass
class Proofs:
    """The proofs in one log, with a key of its own: in a copy of the log nothing is proven."""

    log: Path
    given: bytes | None = field(default=None, repr=False)
    """The key, where the log is kept for another user's forge."""

    @property
    def key(self) -> bytes:
        """A session is known by its name, any other log by its path; an OSError where there can be no key."""
        if self.given is None:
            real = self.log.resolve()
            place = real.name if real.parent == sessions_folder().resolve() else str(real)
            self.given = hmac.digest(_user_key(), os.fsencode(place), "sha256")
        return self.given

    def prove(self, text: str) -> str | None:
        """The proof of a line of consent; None where there can be no key: then its call asks again."""
        try:
            return _keyed_hash(self.key, text)
        except OSError:
            return None

    def unproven(self, lines: Iterable[Line]) -> frozenset[int]:
        """The numbers of those lines of consent that forge did not write, in this very file."""
        return frozenset(
            line.seq for line in lines if line.is_consent and not self._is_proven(line)
        )

    def _is_proven(self, line: Line) -> bool:
        said = line.data.get("proof")
        proof = self.prove(line.unproven_text()) if isinstance(said, str) else None
        return proof is not None and hmac.compare_digest(
            str(said).encode(errors="replace"), proof.encode()
        )


def make_proof(text: str) -> str:
    """The keyed hash of a text that only this user's forge can make."""
    return _keyed_hash(_user_key(), text)


def _keyed_hash(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), "sha256").hex()


def key_file() -> Path:
    return forge_home() / "proofs" / ".key"


def _user_key() -> bytes:
    """The key in the home, made where there is none; no other user may read it."""
    file = key_file()
    try:
        key = read_regular(file, _LENGTH + 1)
    except FileNotFoundError:
        make_private(file.parent)
        key = b""
    if len(key) == _LENGTH:
        return key
    with hold_file_lock(file):
        if len(key := read_regular(file, _LENGTH + 1)) != _LENGTH:
            key = secrets.token_bytes(_LENGTH)
            replace_file(file, key, mode=0o600)
    return key
