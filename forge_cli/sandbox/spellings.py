"""Other spellings of a secret: in base64, with the escapes of URLs and JSON, and over several lines."""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Iterator

_HEX = "[0-9A-Fa-f]"
_BREAK = re.compile(r"[\r\n]\s*+", re.ASCII)
_ESCAPE = re.compile(
    r"[%\\\r\n](?:"  # each begins with one of these, which is found faster than several are tried everywhere
    rf"(?<=%)(?P<byte>{_HEX}{{2}})"
    rf"|(?<=\\)\\*+(?:u(?P<high>[Dd][89ABab]{_HEX}{{2}})\\++u(?P<low>[Dd][C-Fc-f]{_HEX}{{2}})"
    rf"|u(?P<code>{_HEX}{{4}})|[bfnrt]\s*+|(?P<char>[^%]?))"
    r"|(?<=[\r\n])\s*+)",
    re.ASCII,
)
"""A character as URLs and JSON write it, JSON inside of JSON as well, and a line that continues in the next."""

_CONTINUED = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that do not begin a character."""


def plain_text(text: str) -> str:
    """A text with its escapes read, as bytes: however a value is written, the same comes out.

    Line breaks are left out, with the spaces that follow them, for long words are wrapped.
    """
    given = _in_bytes(text)
    has_escapes = "%" in given or "\\" in given
    return (_ESCAPE.sub(_read_escape, given) if has_escapes else _BREAK.sub("", given)).replace("+", " ")


class PlainReading:
    """The same, with where each character of it stands in the text."""

    def __init__(self, text: str) -> None:
        self._given, end = _in_bytes(text), 0
        self._is_ascii = len(self._given) == len(text)
        parts: list[str] = []
        size = 0
        self._begins: list[int] = []
        self._pieces: list[tuple[int, int | None]] = []
        for escape in _ESCAPE.finditer(self._given):
            for part, piece in (
                (self._given[end : escape.start()], (end, None)),
                (_read_escape(escape), escape.span()),
            ):
                parts.append(part)
                self._begins.append(size)
                self._pieces.append(piece)
                size += len(part)
            end = escape.end()
        self._begins.append(size)
        self._pieces.append((end, None))
        self.plain = "".join([*parts, self._given[end:]]).replace("+", " ")

    def span(self, place: int) -> tuple[int, int]:
        """The span in the text of the character at a place of the plain text."""
        piece = bisect_right(self._begins, place) - 1
        begin, end = self._pieces[piece]
        if end is None:
            begin += place - self._begins[piece]
            end = begin + 1
        return (begin, end) if self._is_ascii else (self._in_text(begin), self._in_text(end))

    def _in_text(self, place: int) -> int:
        return len(self._given[:place].encode("latin-1").translate(None, _CONTINUED))


def in_base64(value: str) -> Iterator[str]:
    """The characters that a value alone decides in base64, wherever it stands in what was encoded."""
    data = value.encode("utf-8", "surrogatepass")
    for before in range(3):
        text = binascii.b2a_base64(bytes(before) + data, newline=False).decode()
        found = text[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from {found, found.replace("+", "-").replace("/", "_")}


def only_escapes(text: str) -> str:
    """As a URL may have it: nothing in it can be taken for an escape that is none."""
    return "".join(f"%{ord(byte):02x}" for byte in _in_bytes(text))


def _read_escape(escape: re.Match[str]) -> str:
    match escape.lastgroup:
        case None:
            return ""
        case "char":
            said = escape["char"]
        case "byte":
            said = chr(int(escape["byte"], 16))
        case _:
            codes = escape["code"] or escape["high"] + escape["low"]
            said = _in_bytes(bytes.fromhex(codes).decode("utf-16-be", "surrogatepass"))
    return said if said >= " " else ""


def _in_bytes(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("latin-1")
