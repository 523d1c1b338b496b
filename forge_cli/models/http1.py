"""HTTP/1.1 as bytes: the head of a request, and an answer from whatever pieces arrive; what h11 refuses is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

LARGEST_HEAD = 100 * 1024
_TARGET = re.compile(r"[!-~]+")
_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_VALUE = re.compile(r"(?:[^\0\s]+(?:[ \t]+[^\0\s]+)*)?", re.ASCII)
_HEADER = re.compile(rf"({_NAME.pattern}):[ \t]*({_VALUE.pattern})[ \t]*", re.ASCII)
_STATUS = re.compile(r"HTTP/([0-9]\.[0-9]) ([1-9][0-9]{2})(?: [^\0\r\n\f\v]*)?")
_LENGTH = re.compile(r"[0-9]{1,20}")
_FIRST_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,20})(?:;.*)?[ \t]*\r\n")
_NEXT_CHUNK = re.compile(rb"\r\n" + _FIRST_CHUNK.pattern)
_BLANK_LINE = re.compile(rb"\n\r?\n")
_WITHOUT_BODY = frozenset({204, 304})
_FRAMING = frozenset({"content-length", "transfer-encoding"})


class NotHttp(ValueError):
    """Bytes that HTTP/1.1 does not have, or that end too early."""


class AnswerHead(NamedTuple):
    version: str
    status: int
    headers: dict[str, str]

    @property
    def keeps_open(self) -> bool:
        """May another request follow on the same connection?"""
        return self.version >= "1.1" and not closes(self.headers)


def closes(headers: Mapping[str, str]) -> bool:
    """Does one of both sides want to close the connection after this?"""
    return "close" in [part.strip(" \t").lower() for part in headers.get("connection", "").split(",")]


@lru_cache(maxsize=16)
def encode_head(method: str, target: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The head of a request but for its end; how long the body is, is nobody else's to say. Names are in lower case."""
    legal = all(value.isascii() and _NAME.fullmatch(name) and _VALUE.fullmatch(value) for name, value in headers)
    framed = dict(headers).keys() & _FRAMING
    if framed or not (legal and _NAME.fullmatch(method) and _TARGET.fullmatch(target)):
        raise NotHttp("a request that cannot be sent")
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


class AnswerReader:
    """One answer, as far as it has arrived; what is read of it is forgotten."""

    def __init__(self, method: str = "POST") -> None:
        self._method = method
        self._bytes = bytearray()
        self._searched = 0
        self._has_ended = False
        self._left: int | None = 0
        """Bytes of the body, or of its chunk, that are to come; None for all until the connection ends."""
        self._chunk_line: re.Pattern[bytes] | None = None
        """What begins the next chunk, where there are any."""
        self._in_trailers = False
        self.is_done = False

    @property
    def size(self) -> int:
        """Bytes that were not read."""
        return len(self._bytes)

    @property
    def has_more(self) -> bool:
        """Is there anything that was not read, be it the end?"""
        return bool(self._bytes) or self._has_ended

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def feed_end(self) -> None:
        self._has_ended = True

    def read_head(self) -> AnswerHead | None:
        """Status and headers, None while they have not arrived; what a server says before its answer is passed over."""
        while self.has_more and (lines := self._take_lines()) is not None:
            head = _parse_head(lines)
            if head.status == 101:
                raise NotHttp("another protocol, which nobody asked for")
            if head.status >= 200:
                self._begin_body(head)
                return head
        if self._bytes and self._bytes[0] <= ord(" "):
            raise NotHttp("something else than HTTP")
        return None

    def read_piece(self) -> bytes | None:
        """What has arrived of the body, nothing once that is complete; None where more has to come first."""
        if self.is_done:
            return b""
        piece = self._take_chunk(self._chunk_line) if self._chunk_line else self._take_left()
        if piece or self.is_done:
            return piece
        if self._has_ended and self._left is not None:
            raise NotHttp("an answer that ends in the middle")
        self.is_done = self._has_ended
        return b"" if self.is_done else None

    def _begin_body(self, head: AnswerHead) -> None:
        length = head.headers.get("content-length")
        if head.status in _WITHOUT_BODY or self._method == "HEAD":
            self.is_done = True
        elif "transfer-encoding" in head.headers:
            self._chunk_line = _FIRST_CHUNK
        else:
            self._left = None if length is None else int(length)
            self.is_done = self._left == 0

    def _take_left(self) -> bytes:
        """As much of what is to come as has arrived."""
        piece = bytes(self._bytes if self._left is None else self._bytes[: self._left])
        del self._bytes[: len(piece)]
        if self._left is not None:
            self._left -= len(piece)
            self.is_done = not self._left and not self._chunk_line
        return piece

    def _take_chunk(self, line: re.Pattern[bytes]) -> bytes:
        """As much of one as has arrived; nothing at their end, which trailers follow."""
        if self._left or (not self._in_trailers and self._begin_chunk(line)):
            return self._take_left()
        if self._in_trailers and (lines := self._take_lines()) is not None:
            _parse_headers(lines)
            self.is_done = True
        return b""

    def _begin_chunk(self, line: re.Pattern[bytes]) -> bool:
        """Read the line before a chunk; False while that has not arrived, and where it is the last."""
        ends_another = line is _NEXT_CHUNK
        if ends_another and not b"\r\n".startswith(bytes(self._bytes[:2])):
            raise NotHttp("a chunk that is longer than it says")
        end = self._bytes.find(b"\r\n", max(self._searched, 2 * ends_another)) + 2
        if end < 2:
            self._miss_line(1)
            return False
        found = line.fullmatch(self._bytes, 0, end)
        if found is None:
            raise NotHttp("a chunk without a length")
        self._left, self._searched, self._chunk_line = int(found[1], 16), 0, _NEXT_CHUNK
        self._in_trailers = not self._left
        del self._bytes[:end]
        return bool(self._left)

    def _take_lines(self) -> list[str] | None:
        """Those up to a blank one, None while that has not arrived."""
        if self._bytes.startswith((b"\n", b"\r\n")):
            del self._bytes[: self._bytes.index(b"\n") + 1]
            return []
        found = _BLANK_LINE.search(self._bytes, self._searched)
        if found is None:
            self._miss_line(2)
            return None
        text = self._bytes[: found.start()].decode("latin-1")
        del self._bytes[: found.end()]
        self._searched = 0
        return text.removesuffix("\r").replace("\r\n", "\n").split("\n")

    def _miss_line(self, overlap: int) -> None:
        """What was searched is not searched again, but for so many bytes in which the end may begin."""
        self._searched = max(0, len(self._bytes) - overlap)
        if self._has_ended or len(self._bytes) > LARGEST_HEAD:
            raise NotHttp("lines that do not end")


def _parse_head(lines: Sequence[str]) -> AnswerHead:
    status = _STATUS.fullmatch(lines[0]) if lines else None
    if status is None:
        raise NotHttp("no status line")
    return AnswerHead(status[1], int(status[2]), _parse_headers(lines[1:]))


def _parse_headers(lines: Sequence[str]) -> dict[str, str]:
    """By their names in lower case; those with the same name are joined."""
    unfolded: list[str] = []
    for line in lines:
        if unfolded and line.startswith((" ", "\t")):
            unfolded[-1] += " " + line.lstrip(" \t")
        else:
            unfolded.append(line)
    headers: dict[str, str] = {}
    for line in unfolded:
        found = _HEADER.fullmatch(line)
        if found is None:
            raise NotHttp("a line that is not a header")
        name, value = found[1].lower(), found[2]
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    if headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise NotHttp("a transfer coding other than chunked")
    if "content-length" in headers:
        headers["content-length"] = _only_length(headers["content-length"])
    return headers


def _only_length(said: str) -> str:
    """The one that is meant, however often it is said."""
    if _LENGTH.fullmatch(said):
        return said
    lengths = {part.strip(" \t") for part in said.split(",")}
    if len(lengths) != 1 or not _LENGTH.fullmatch(length := lengths.pop()):
        raise NotHttp("lengths that differ, or are none")
    return length
