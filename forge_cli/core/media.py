"""Results with images and files, and display hints for UIs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

from msgspec import Struct

from forge_cli.core.wire import OnWire, Unreadable, clean_text, own_reader, reader, snake_case, wire


class DisplayHints(OnWire, frozen=True):
    """How a UI should show a result; the model does not see this."""

    preferred_view: Literal["text", "markdown", "code", "table", "tree", "hidden"] | None = None
    language: str | None = None
    collapsed: bool | None = None
    max_height: int | None = None


class KnownResult(Struct, frozen=True):
    """The common base of well-known result kinds; on the wire each starts with its kind."""

    kind: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {"kind": self.kind, **wire(self)}


def read_display(data: Any) -> DisplayHints:
    """Return the valid hints; invalid ones are ignored, because no result depends on them."""
    hints: dict[str, Any] = {}
    types = get_type_hints(DisplayHints)
    if not isinstance(data, Mapping):
        return DisplayHints()
    for key, value in data.items():
        name = snake_case(str(key))
        with suppress(KeyError, Unreadable):
            hints[name] = reader(types[name])(value)
    return DisplayHints(**hints)


own_reader(DisplayHints, read_display)


MEDIA_LIMIT = 3_750_000
"""The most bytes of an image or file: 5 MB in base64, the limit of providers."""

# Formats such as image/svg+xml are text as well.
_TEXT_TYPE = r"text/.+|(application|image)/(.+\+)?(json|xml|yaml)"
_REDACTED = "[redacted:"
"""The marker inside base64 that was redacted; such data cannot be decoded."""
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-zA-Z0-9.+_-]+(;.*)?")

MediaT = TypeVar("MediaT", "Image", "Blob")


class Image(KnownResult, frozen=True):
    """A picture: models with vision see it, others read ``alt`` and its format."""

    kind: ClassVar[str] = "image"
    data: bytes
    media_type: str
    """The media type, such as ``image/png``."""
    alt: str = ""
    """A description of the picture for readers who cannot see it."""
    display: DisplayHints | None = None

    def __post_init__(self) -> None:
        _check(self, self.data, self.media_type)
        if not self.media_type.startswith("image/"):
            raise ValueError(
                f"{self.media_type!r} is not an image type: use Blob, or a type such as 'image/png'"
            )

    def wire(self) -> dict[str, Any]:
        """Return the image as JSON, with its data in base64."""
        return _wire(self, {"alt": self.alt} if self.alt else {})

    def about(self) -> str:
        """Return a short description, such as ``image/png, 640x480, 32 KB``."""
        from forge_cli.core.pictures import HEAD, dimensions, file_size

        facts = [self.media_type]
        if size := dimensions(self.data[:HEAD]):
            facts.append(f"{size[0]}x{size[1]}")
        facts.append(file_size(len(self.data)))
        return ", ".join(facts)

    def text(self) -> str:
        """Return the text for the model, in addition to the image itself."""
        return "\n".join(filter(None, (self.alt, f"[image: {self.about()}]")))


class Blob(KnownResult, frozen=True):
    """A file: the model reads text, may see a PDF, and reads a description of anything else."""

    kind: ClassVar[str] = "blob"
    data: bytes
    media_type: str = "application/octet-stream"
    name: str = ""
    display: DisplayHints | None = None

    def __post_init__(self) -> None:
        _check(self, self.data, self.media_type)

    def wire(self) -> dict[str, Any]:
        """Return the file as JSON: text as text, other data in base64."""
        return _wire(self, {"name": self.name} if self.name else {})

    def about(self) -> str:
        """Return a short description, such as ``report.pdf, application/pdf, 32 KB``."""
        from forge_cli.core.pictures import file_size

        return ", ".join(filter(None, (self.name, self.media_type, file_size(len(self.data)))))

    def text(self) -> str:
        """Return the text for the model: a description, and the content of a text file."""
        content = decoded_text(self)
        if content is None:
            return f"[file: {self.about()}]"
        return f"[file: {self.about()}]\n{content}"


def decoded_text(value: Image | Blob) -> str | None:
    """Return the content of a text file; None for other data."""
    if not re.fullmatch(_TEXT_TYPE, value.media_type.partition(";")[0]):
        return None
    try:
        return value.data.decode()
    except UnicodeDecodeError:
        return None


def _check(value: Image | Blob, data: Any, media_type: Any) -> None:
    name = type(value).__name__
    if not isinstance(data, bytes):
        raise ValueError(f"the data of {name} must be bytes, not {type(data).__name__}")
    if not isinstance(media_type, str) or not _MEDIA_TYPE.fullmatch(media_type):
        raise ValueError(
            f"{media_type!r} is not a media type for {name}: use one such as 'image/png'"
        )


def _wire(value: Image | Blob, more: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": value.kind, "mediaType": value.media_type}
    for key, text in more.items():
        found[key] = clean_text(str(text))
    content = decoded_text(value)
    # Text stays text, because secrets inside of base64 would not be found and redacted.
    if content is None:
        found["data"] = base64.b64encode(value.data).decode()
    else:
        found["text"] = content
    if value.display:
        found["display"] = value.display.wire()
    return found


def _read(cls: type[MediaT], name: str, data: Any) -> MediaT:
    """Read an image or file from JSON; ``name`` is the key of its description."""
    if not isinstance(data, dict):
        raise Unreadable("not an object")
    said = data.get(name, "")
    media_type = data.get("mediaType")
    display = data.get("display")
    if not isinstance(said, str):
        raise Unreadable(f"{name}: not a text")
    if not isinstance(media_type, str):
        raise Unreadable("mediaType: missing")
    hints = read_display(display) if display else None
    try:
        return cls(_content(data), media_type, said, hints)
    except ValueError as problem:
        raise Unreadable(str(problem)) from None


def _content(data: dict[str, Any]) -> bytes:
    match data:
        case {"text": str() as text}:
            return text.encode()
        case {"data": str() as encoded} if _REDACTED in encoded:
            # The redactor replaced a part of it, so the rest is not valid base64.
            return b""
        case {"data": str() as encoded}:
            try:
                return base64.b64decode(encoded, validate=True)
            except binascii.Error:
                raise Unreadable("data: not base64") from None
        case _:
            raise Unreadable("data: missing")


own_reader(Image, lambda data: _read(Image, "alt", data))
own_reader(Blob, lambda data: _read(Blob, "name", data))


def _read_file(data: Any) -> Any:
    is_image = isinstance(data, dict) and data.get("kind") == "image"
    return reader(Image if is_image else Blob)(data)


own_reader(Image | Blob, _read_file)
