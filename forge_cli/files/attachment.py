"""Attachments of a task, with their media type determined by content, not by name."""

from __future__ import annotations

from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.core.messages import Attachment
from forge_cli.files.places import wrong_path

LARGEST = 20 * 1024 * 1024
"""The most bytes of a file."""
NEITHER = "neither UTF-8 text, nor an image (PNG, JPEG, GIF, WebP), nor a PDF"
_UNKNOWN = "application/octet-stream"
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


class UnknownKind(UsageError):
    """The file has a type that no model can read."""


def read_attachment(path: Path, option: str = "--attach") -> Attachment:
    """Read a file; errors name ``option`` and the path."""
    named = f"{option} {path}".strip()
    try:
        if not path.is_file():
            raise wrong_path(option, path, "file")
        size = path.stat().st_size
        if size > LARGEST:
            raise UsageError(f"{named}: {size} bytes are too much; the most is {LARGEST}")
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{named}: {error.strerror}") from None
    if (kind := media_type(data)) == _UNKNOWN:
        raise UnknownKind(f"{named}: it is {NEITHER}")
    return Attachment(path.name, kind, data)


def media_type(data: bytes) -> str:
    """Return the media type of a file's content."""
    for signature, kind in _SIGNATURES.items():
        if data.startswith(signature):
            return kind
    # The four bytes in between are the size of the file.
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _UNKNOWN
    # NUL is valid UTF-8, but only binary files have it.
    if "\0" in text:
        return _UNKNOWN
    return "text/plain"
