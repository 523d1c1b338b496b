"""Images and files as results: on the wire, for the model, bounded, and read back from a record.

Covers forge_cli.core.media and forge_cli.core.results.
"""

import struct
from typing import Any

import pytest

from forge_cli import Image
from forge_cli.core.media import MEDIA_LIMIT
from forge_cli.core.results import (
    Json,
    ResultValue,
    Text,
    as_result,
    bounded,
    read_result,
    shown_files,
)
from forge_cli.core.wire import Unreadable
from forge_cli.results import Blob, DisplayHints

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480)
SVG = b"<svg/>"

WIRE: list[tuple[ResultValue, dict[str, Any], str]] = [
    (
        Image(PNG, "image/png", "A cat"),
        {
            "kind": "image",
            "mediaType": "image/png",
            "alt": "A cat",
            "data": "iVBORw0KGgoAAAANSUhEUgAAAoAAAAHg",
        },
        "A cat\n[image: image/png, 640x480, 24 bytes]",
    ),
    (
        Image(SVG, "image/svg+xml"),
        {"kind": "image", "mediaType": "image/svg+xml", "text": "<svg/>"},
        "[image: image/svg+xml, 6 bytes]",
    ),
    (
        Blob(b"\xff\0", "application/zip", "a.zip", DisplayHints(collapsed=True)),
        {
            "kind": "blob",
            "mediaType": "application/zip",
            "name": "a.zip",
            "data": "/wA=",
            "display": {"collapsed": True},
        },
        "[file: a.zip, application/zip, 2 bytes]",
    ),
    (
        Blob(b"a,b\n", "text/csv; charset=utf-8", "a.csv"),
        {"kind": "blob", "mediaType": "text/csv; charset=utf-8", "name": "a.csv", "text": "a,b\n"},
        "[file: a.csv, text/csv; charset=utf-8, 4 bytes]\na,b\n",
    ),
    (
        Blob(b"\xff"),
        {"kind": "blob", "mediaType": "application/octet-stream", "data": "/w=="},
        "[file: application/octet-stream, 1 byte]",
    ),
]


@pytest.mark.parametrize(("value", "on_the_wire", "for_the_model"), WIRE)
def test_media_is_encoded_in_logs_and_for_the_model(
    value: ResultValue, on_the_wire: dict[str, Any], for_the_model: str
) -> None:
    assert value.wire() == on_the_wire
    assert read_result(on_the_wire) == value == as_result(on_the_wire)
    assert value.text() == for_the_model
    assert shown_files(value) == (value,)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Image("text", "image/png"), "the data of Image must be bytes, not str"),
        (lambda: Image(b"", "text/plain"), "'text/plain' is not an image type"),
        (lambda: Blob(b"", "zip"), "'zip' is not a media type for Blob"),
    ],
)
def test_invalid_media_is_refused_when_it_is_made(make: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"mediaType": "image/png"}, "data: missing"),
        ({"mediaType": "image/png", "data": "?"}, "data: not base64"),
        ({"data": ""}, "mediaType: missing"),
        ({"mediaType": "image/png", "data": "", "alt": 1}, "alt: not a text"),
    ],
)
def test_invalid_media_json_is_unreadable(data: dict[str, Any], problem: str) -> None:
    with pytest.raises(Unreadable, match=problem):
        read_result({"kind": "image", **data})
    assert as_result({"kind": "image", **data}) == Json({"kind": "image", **data})


def test_log_with_redacted_base64_can_be_read() -> None:
    data = {"kind": "image", "mediaType": "image/png", "data": "iVBO[redacted:A_TOKEN]gg=="}
    assert read_result(data) == Image(b"", "image/png")


def test_media_over_the_limit_is_described_but_not_kept() -> None:
    kept = Image(PNG + bytes(MEDIA_LIMIT - len(PNG)), "image/png")
    assert bounded(kept) is kept
    large = bounded(Image(kept.data + b"\0", "image/png", "A map"))
    assert isinstance(large, Text)
    assert large.content.startswith("A map\n[image: image/png, 640x480, 3.8 MB]\n[it is not kept: ")


def test_list_of_results_becomes_one_text_with_files() -> None:
    cat, table = Image(PNG, "image/png", "A cat"), Blob(b"a,b", "text/csv", "a.csv")
    value = as_result(["Before", cat, Text("After"), table])
    assert value == Text(f"Before\n{cat.text()}\nAfter\n{table.text()}", files=(cat, table))
    assert shown_files(value) == (cat, table)
    assert read_result(value.wire()) == value == bounded(value)
    odd = {"kind": "text", "content": "a", "files": [{"kind": "text", "content": "b"}]}
    assert as_result(odd) == Json(odd)


def test_first_files_that_fit_are_kept() -> None:
    half = Blob(bytes(MEDIA_LIMIT // 2), name="a")
    few = bounded(Text("three", files=(half, half, half)))
    assert few.text().startswith("three\n[1 of 3 are not kept: ")
    assert (
        shown_files(few)
        == shown_files(bounded(Json([1], files=(half, half, half))))
        == (half, half)
    )
