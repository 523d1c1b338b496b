"""Attachments: files that go with a task, read whole, their media type taken from their content and not their name."""

from __future__ import annotations

from pathlib import Path

from forge_cli.core.errors import UsageError
from forge_cli.core.messages import Attachment
from forge_cli.files.places import wrong_path

LARGEST = 20 * 1024 * 1024
NEITHER = "neither a text in UTF-8, nor an image (PNG, JPEG, GIF, WebP), nor a PDF"
_UNKNOWN = "application/octet-stream"
_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


class UnknownKind(UsageError):
    """No model could be shown the file."""


def read_attachment(path: Path, option: str = "--attach") -> Attachment:
    """Read a file for an option, which errors name; without one, they begin with the path."""
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
    return _UNKNOWN if "\0" in text else "text/plain"
