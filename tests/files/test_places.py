"""The place of what is wrong in a file, whatever it is read as."""

import json
import tomllib

import pytest

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.files.places import cannot_read, decode_utf8, parse_json, place_of, whole_file

from ..rows import each_row

START = Mark("f")


@each_row(
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
def test_a_byte_that_is_not_text_is_named_by_its_place(raw: bytes, where: Mark, place: str) -> None:
    with pytest.raises(WorkerError) as caught:
        decode_utf8(raw, where)
    assert str(caught.value) == f"{place} is not UTF-8; save the file as UTF-8"


def test_text_is_without_a_byte_order_mark() -> None:
    assert decode_utf8(b"\xef\xbb\xbfa", START) == "a"
    assert parse_json(b"\xef\xbb\xbf[1]", START) == [1]


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
def test_what_is_not_json_is_named_by_its_place(text: str, place: str) -> None:
    with pytest.raises(WorkerError, match=f"^{place}: this is not a list: "):
        parse_json(text.encode(), START, "this is not a list")


def test_a_place_counts_from_where_the_text_begins() -> None:
    with pytest.raises(json.JSONDecodeError) as broken:
        json.loads("[1,\n }")
    assert place_of(broken.value, Mark("f", 10)) == Mark("f", 11, 2)
    with pytest.raises(tomllib.TOMLDecodeError) as wrong:
        tomllib.loads("a = 1\nb = = 2")
    assert place_of(wrong.value, Mark("f", 10)) == Mark("f", 11, 5)
    assert place_of(ValueError("elsewhere"), Mark("f", 10)) == Mark("f", 10)


def test_a_file_as_a_whole_has_no_place() -> None:
    assert str(whole_file("f", "it is empty", hint="write it")) == "f:1:1: it is empty\n  write it"
    assert (
        str(cannot_read("f", PermissionError(13, "Permission denied"))) == "f:1:1: it cannot be read: Permission denied"
    )
