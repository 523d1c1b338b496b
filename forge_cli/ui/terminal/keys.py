"""Keys: the bytes that a terminal sends, read as what somebody pressed or pasted."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
"""Have the terminal mark what is pasted, and no more."""

_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b[^\[O\x1b]|[^\x1b]", re.DOTALL)
_NAMES = {
    "\r": "enter",
    "\n": "enter",
    "\x01": "home",
    "\x02": "left",
    "\x04": "end of input",
    "\x05": "end",
    "\x06": "right",
    "\x08": "backspace",
    "\x0b": "erase after",
    "\x0c": "redraw",
    "\x0e": "down",
    "\x10": "up",
    "\x15": "erase before",
    "\x17": "erase word",
    "\x19": "insert erased",
    "\x7f": "backspace",
    "\x1bb": "word left",
    "\x1bf": "word right",
    "\x1b\x7f": "erase word",
}
_FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end"}
_NUMBERS = {"1": "home", "3": "delete", "4": "end", "7": "home", "8": "end"}


class Key(NamedTuple):
    """A key by its name; ``text`` is what was typed or pasted."""

    name: str
    text: str = ""


class KeyReader:
    """Reads the input of a terminal piece by piece; a key may come in several."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""

    @property
    def is_open(self) -> bool:
        """Has a key begun that is only its first half, such as an Escape that nothing follows?"""
        return self._rest.startswith("\x1b") and not self._rest.startswith(_PASTE)

    def forget(self) -> None:
        """What has come so far does not count."""
        self._decoder.reset()
        self._rest = ""

    def feed(self, data: bytes) -> None:
        self._rest += self._decoder.decode(data)

    def complete(self) -> Iterator[Key]:
        """The keys that are complete; whoever stops in between leaves the others for the next time."""
        while self._rest:
            if self._rest.startswith(_PASTE):
                text, end, rest = self._rest[len(_PASTE) :].partition(_PASTE_END)
                if not end:
                    return
                self._rest = rest
                yield Key("text", text.replace("\r\n", "\n").replace("\r", "\n"))
            elif found := _SEQUENCE.match(self._rest):
                self._rest = self._rest[found.end() :]
                yield _named(found[0])
            elif self._rest.startswith("\x1b\x1b"):
                self._rest = self._rest[1:]
            else:
                return


def _named(sequence: str) -> Key:
    if name := _NAMES.get(sequence):
        return Key(name)
    if not sequence.startswith("\x1b"):
        return Key("text", sequence) if sequence >= " " else Key("unknown")
    final = sequence[-1]
    if final == "~":
        return Key(_NUMBERS.get(sequence[2:-1], "unknown"))
    name = _FINALS.get(final, "unknown") if sequence[1] in "[O" else "unknown"
    return Key(f"word {name}" if ";" in sequence and name in ("left", "right") else name)
