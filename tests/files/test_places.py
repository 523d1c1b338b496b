"""The place of an error in a file of any format."""

import pytest

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.places import decode_utf8, parse_json
from tests.support.rows import each_row

START = Mark("f")


@pytest.mark.parametrize(
    ("raw", "where", "place"),
    [
        (b"\xff", START, "f:1:1: byte 0xff at offset 0"),
        (b"a\n\xc3\xa9\xe9", START, "f:2:2: byte 0xe9 at offset 4"),
        (b"\xef\xbb\xbfa\xff", START, "f:1:2: byte 0xff at offset 4"),
        (b"a\r\nb\rc\xff", START, "f:3:2: byte 0xff at offset 6"),
        (b"ab\xff", Mark("f", 7), "f:7:3: byte 0xff"),
        (b"ab\xff", Mark("f", 7, 5), "f:7:7: byte 0xff"),
    ],
)
def test_invalid_byte_is_named_by_its_place(raw: bytes, where: Mark, place: str) -> None:
    with pytest.raises(WorkerError) as caught:
        decode_utf8(raw, where)
    assert str(caught.value) == f"{place} is not UTF-8; save the file as UTF-8"


@each_row(
    ("text", "place"),
    [
        ("", "f:1:1"),
        ('{"a": 1,\n\n  b}', "f:3:3"),
        ("[1,\n2", "f:2:2"),
        ("9" * 5000, "f:1:1"),
        ("[" * 100_000, "f:1:1"),
    ],
)
def test_invalid_json_is_named_by_its_place(text: str, place: str) -> None:
    with pytest.raises(WorkerError, match=f"^{place}: this is not a list: "):
        parse_json(text.encode(), START, "this is not a list")
