"""Proofs that the user's forge wrote the consent in a log: a keyed hash in each such line.

The hash chain shows that no line was changed, but any program can build such a chain. The key is in
the user's home. A line of consent without a valid proof can be read, but its call asks again.
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

_KEY_LENGTH = 32


@dataclass
class Proofs:
    """The proofs in one log. The key depends on the log, so a copy of it has no valid proofs."""

    log: Path
    given: bytes | None = field(default=None, repr=False)
    """The key, if the log belongs to another user's forge."""

    @property
    def key(self) -> bytes:
        """The key of this log; reading it raises OSError if there is no user key.

        It depends on the name of a session, or on the full path of any other log.
        """
        if self.given is None:
            real = self.log.resolve()
            place = str(real)
            if real.parent == sessions_folder().resolve():
                place = real.name
            self.given = hmac.digest(_user_key(), os.fsencode(place), "sha256")
        return self.given

    def prove(self, text: str) -> str | None:
        """Return the proof of a line of consent, or None if there is no key.

        Its call then asks again.
        """
        try:
            return _keyed_hash(self.key, text)
        except OSError:
            return None

    def unproven(self, lines: Iterable[Line]) -> frozenset[int]:
        """Return the sequence numbers of lines of consent without a valid proof."""
        return frozenset(
            line.seq for line in lines if line.is_consent and not self._is_proven(line)
        )

    def _is_proven(self, line: Line) -> bool:
        said = line.data.get("proof")
        if not isinstance(said, str):
            return False
        proof = self.prove(line.unproven_text())
        # As bytes, because compare_digest refuses text that is not ASCII.
        return proof is not None and hmac.compare_digest(
            said.encode(errors="replace"), proof.encode()
        )


def make_proof(text: str) -> str:
    """Return the hash of a text that only the user's forge can make."""
    return _keyed_hash(_user_key(), text)


def _keyed_hash(key: bytes, text: str) -> str:
    return hmac.digest(key, text.encode(), "sha256").hex()


def key_file() -> Path:
    """Return the file with the user's key."""
    return forge_home() / "proofs" / ".key"


def _user_key() -> bytes:
    """Return the key in the home, created on first use and readable only by the user."""
    file = key_file()
    try:
        # One byte more, so that a longer file is not taken for a key.
        key = read_regular(file, _KEY_LENGTH + 1)
    except FileNotFoundError:
        make_private(file.parent)
        key = b""
    if len(key) == _KEY_LENGTH:
        return key
    with hold_file_lock(file):
        # Again under the lock: another process may have written the key in the meantime. Locking
        # creates a missing file, which is empty then.
        if len(key := read_regular(file, _KEY_LENGTH + 1)) != _KEY_LENGTH:
            key = secrets.token_bytes(_KEY_LENGTH)
            replace_file(file, key, mode=0o600)
    return key
