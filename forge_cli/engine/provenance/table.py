"""A table of words that takes little memory: 8 bytes for each, and never more than its bound."""

from __future__ import annotations

import os
from array import array
from hashlib import blake2b

MINE = 1
"""The person said it, or it belongs to a file that the person attached."""
TRUSTED = 2
"""A trusted source brought it."""
FROM_NETWORK = 4
"""A page or server brought it before the session itself wrote it."""

MIN_SLOTS = 1 << 12
_SOURCES = 1 << 21
_FLAG_BITS = 3
_SOURCE_BITS = 21
_FILLED = 0.75


class WordTable:
    """Words with the number of the source that first brought each, and flags.

    Words are kept as keyed hashes of 40 bits. The key is random, so that nobody can make a word
    that counts as another one. A full table forgets new words: then more calls ask, never fewer.
    """

    def __init__(self) -> None:
        self._slots = array("Q", bytes(8 * MIN_SLOTS))
        self._used = 0
        self._key = os.urandom(16)
        self.most_bytes = 8 * MIN_SLOTS
        """The bound; it may grow with the record."""

    @property
    def bytes(self) -> int:
        return 8 * len(self._slots)

    def __len__(self) -> int:
        return self._used

    def add(self, word: str, source: int, flags: int) -> None:
        """Add a word; a known one keeps its source and gets ``MINE`` and ``TRUSTED`` as well."""
        digest = self._hash(word)
        at = self._find(digest)
        entry = self._slots[at]
        if entry:
            self._slots[at] = entry | (flags & (MINE | TRUSTED))
            return
        if (self._used + 1) / len(self._slots) > _FILLED:
            if not self._grow():
                return
            at = self._find(digest)
        number = min(source, _SOURCES - 1)
        self._slots[at] = digest << (_SOURCE_BITS + _FLAG_BITS) | number << _FLAG_BITS | flags
        self._used += 1

    def flags(self, word: str) -> int:
        """Return the flags of a word; 0 for an unknown one."""
        return self._slots[self._find(self._hash(word))] & ((1 << _FLAG_BITS) - 1)

    def source(self, word: str) -> int | None:
        """Return the number of the source that first brought a word."""
        entry = self._slots[self._find(self._hash(word))]
        if not entry:
            return None
        return entry >> _FLAG_BITS & (_SOURCES - 1)

    def _hash(self, word: str) -> int:
        digest = blake2b(word.encode("utf-8", "surrogatepass"), digest_size=5, key=self._key)
        return int.from_bytes(digest.digest()) or 1

    def _find(self, digest: int) -> int:
        """Return the slot of a hash, or the free slot where it belongs."""
        last = len(self._slots) - 1
        at = digest & last
        while (entry := self._slots[at]) and entry >> (_SOURCE_BITS + _FLAG_BITS) != digest:
            at = (at + 1) & last
        return at

    def _grow(self) -> bool:
        before = self._slots
        if 16 * len(before) > self.most_bytes:
            return False
        self._slots = array("Q", bytes(16 * len(before)))
        for entry in before:
            if entry:
                self._slots[self._find(entry >> (_SOURCE_BITS + _FLAG_BITS))] = entry
        return True
