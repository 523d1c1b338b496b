"""Pictures by name, described by their first bytes.

Covers forge_cli.core.pictures.
"""

import base64
import struct

import pytest

from forge_cli.core.pictures import dimensions
from forge_cli.ui.views import describe_image

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 640, 480)
JPEG = (
    b"\xff\xd8\xff\xe0\x00\x10" + bytes(14) + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 480, 640)
)
LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 640, 480)
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + struct.pack("<I", 639 | 479 << 14)
EXTENDED = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + struct.pack("<HBHB", 639, 0, 479, 0)


@pytest.mark.parametrize("head", [PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED])
def test_dimensions_are_read_from_the_first_bytes(head: bytes) -> None:
    assert dimensions(head) == (640, 480)
    assert dimensions(head[:-1]) is None


def test_image_is_described_with_its_size() -> None:
    data = base64.b64encode(PNG + bytes(32_000 - len(PNG))).decode()
    assert describe_image("image/png", data) == "image.png, 640x480, 32 KB"
    assert (
        describe_image("image/png", {"path": "shots/a.png", "data": data})
        == "a.png, 640x480, 32 KB"
    )
    assert describe_image("image/svg+xml", {"url": "x"}) == "image.svg"
    assert describe_image("image/png", "not base64!") == "image.png, 8 bytes"
