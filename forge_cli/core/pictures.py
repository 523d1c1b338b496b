"""Dimensions of pictures from their first bytes, their cost in tokens, and file sizes as text."""

from __future__ import annotations

import struct

# Providers scale larger pictures down to this edge, and bill this many pixels as one token.
LONGEST_EDGE = 1568
PIXELS_A_TOKEN = 750
HEAD = 64 * 1024
"""Bytes that are searched for the dimensions of a picture."""


def file_size(count: int) -> str:
    """Return a size as text, such as ``9 bytes``, ``32 KB`` or ``1.4 MB``."""
    if count < 1000:
        return "1 byte" if count == 1 else f"{count} bytes"
    # From 999,500 bytes on, the rounded number of KB would be 1000.
    if count < 999_500:
        return f"{count / 1000:.0f} KB"
    return f"{count / 1_000_000:.1f} MB"


def dimensions(head: bytes) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF, JPEG or WebP; None if they cannot be found."""
    try:
        match head[:4]:
            case b"\x89PNG":
                # The first chunk of a PNG has a fixed place, and begins with the dimensions.
                return _pair(struct.unpack_from(">II", head, 16))
            case b"GIF8":
                return _pair(struct.unpack_from("<HH", head, 6))
            case b"RIFF":
                return _webp(head)
            case bytes(start) if start.startswith(b"\xff\xd8"):
                return _jpeg(head)
            case _:
                return None
    except struct.error:
        return None


def image_tokens(width: int, height: int) -> int:
    """Return the estimated tokens of a picture; providers scale large pictures down."""
    scale = min(1.0, LONGEST_EDGE / max(width, height, 1))
    return max(1, round(width * height * scale * scale / PIXELS_A_TOKEN))


def _pair(numbers: tuple[int, ...]) -> tuple[int, int]:
    width, height = numbers
    return width, height


def _webp(head: bytes) -> tuple[int, int] | None:
    # Three encodings have the dimensions in different places, in 14 or 24 bits each.
    match head[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", head, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            low_width, high_width, low_height, high_height = struct.unpack_from("<HBHB", head, 24)
            return low_width + (high_width << 16) + 1, low_height + (high_height << 16) + 1
        case _:
            return None


def _jpeg(head: bytes) -> tuple[int, int] | None:
    place = 2
    while True:
        marker, kind, length = struct.unpack_from(">BBH", head, place)
        if marker != 0xFF:
            return None
        # These markers start a frame; the three exceptions are tables and extensions.
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", head, place + 5)
            return width, height
        place += 2 + length
