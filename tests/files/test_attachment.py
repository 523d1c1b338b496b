"""Attached files: their type comes from their content, and unreadable ones are reported."""

import os
from pathlib import Path

import pytest

from forge_cli.core.errors import UsageError
from forge_cli.core.messages import Attachment
from forge_cli.files.attachment import LARGEST, NEITHER, media_type, read_attachment

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
WEBP = b"RIFF\x24\0\0\0WEBPVP8 "


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", "text/plain"),
        (b"Plain words.\n", "text/plain"),
        ("Grüße, 世界".encode(), "text/plain"),
        (b"\xef\xbb\xbfwith a mark", "text/plain"),
        (b"\x1b[2J", "text/plain"),
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF87a\x01\0", "image/gif"),
        (b"GIF89a\x01\0", "image/gif"),
        (WEBP, "image/webp"),
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        (b"%PDF", "text/plain"),
        (b"GIF88a", "text/plain"),
        (b"a PNG: \x89PNG\r\n\x1a\n", "application/octet-stream"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "application/octet-stream"),
        (b"nul\0nul", "application/octet-stream"),
        ("Grüße".encode("latin-1"), "application/octet-stream"),
        ("Grüße".encode("utf-16"), "application/octet-stream"),
    ],
)
def test_media_type_comes_from_the_content(tmp_path: Path, data: bytes, kind: str) -> None:
    file = tmp_path / "misleading.jpeg"
    file.write_bytes(data)
    assert media_type(data) == kind
    if kind == "application/octet-stream":
        assert problem_of(file) == f"--attach {file}: it is {NEITHER}"
    else:
        assert read_attachment(file) == Attachment("misleading.jpeg", kind, data)


def problem_of(path: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_attachment(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_unusable_attachment_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("x")
    for name, problem in {
        "nosuch.txt": "there is no such file",
        "file/below": "there is no such file",
        "loop": "there is no such file",
        "nul\0": "there is no such file",
        ".": "that is not a file",
        "pipe": "that is not a file",
        "x" * 300: "File name too long",
    }.items():
        path = tmp_path / name
        assert problem_of(path).splitlines()[0] == f"--attach {path}: {problem}"


def test_too_large_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "large"
    with open(file, "wb") as large:
        large.write(b"%PDF-")
        large.truncate(LARGEST)
    assert len(read_attachment(file).data) == LARGEST
    with open(file, "wb") as large:
        large.truncate(LARGEST + 1)
    assert problem_of(file) == f"--attach {file}: 20971521 bytes are too much; the most is 20971520"
