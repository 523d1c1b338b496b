"""Results that are more than text: hints for UIs, and images and files, which models that see are shown."""

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
    """How a UI may show a result; never what the model reads."""

    preferred_view: Literal["text", "markdown", "code", "table", "tree", "hidden"] | None = None
    language: str | None = None
    collapsed: bool | None = None
    max_height: int | None = None


class KnownResult(Struct, frozen=True):
    """The part that the well-known kinds share; a result on the wire starts with its kind."""

    kind: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """The result as JSON."""
        return {"kind": self.kind, **wire(self)}


def read_display(data: Any) -> DisplayHints:
    """Hints that can be taken; a result does not depend on them."""
    hints: dict[str, Any] = {}
    types = get_type_hints(DisplayHints)
    for key, value in data.items() if isinstance(data, Mapping) else ():
        name = snake_case(str(key))
        with suppress(KeyError, Unreadable):
            hints[name] = reader(types[name])(value)
    return DisplayHints(**hints)


own_reader(DisplayHints, read_display)


MEDIA_LIMIT = 3_750_000
"""Bytes of an image or a file: 5 MB in base64, which is what providers take."""

_TEXT_TYPE = r"text/.+|(application|image)/(.+\+)?(json|xml|yaml)"
_REDACTED = "[redacted:"
"""The mark in place of base64 that looked like a secret; the rest cannot be decoded."""
_MEDIA_TYPE = re.compile(r"[a-z]+/[a-zA-Z0-9.+_-]+(;.*)?")

MediaT = TypeVar("MediaT", "Image", "Blob")


class Image(KnownResult, frozen=True):
    """A picture: a model that sees is shown it, any other reads ``alt`` and what kind of picture it is."""

    kind: ClassVar[str] = "image"
    data: bytes
    media_type: str
    """Such as ``image/png``."""
    alt: str = ""
    """A description of what there is to see, for those who cannot."""
    display: DisplayHints | None = None

    def __post_init__(self) -> None:
        _check(self, self.data, self.media_type)
        if not self.media_type.startswith("image/"):
            raise ValueError(
                f"{self.media_type!r} is not the type of an image: use Blob, or a type such as 'image/png'"
            )

    def wire(self) -> dict[str, Any]:
        """The image as JSON, its data in base64."""
        return _wire(self, {"alt": self.alt} if self.alt else {})

    def about(self) -> str:
        """``image/png, 640x480, 32 KB``"""
        from forge_cli.core.pictures import HEAD, dimensions, file_size

        size = dimensions(self.data[:HEAD])
        facts = [
            self.media_type,
            *([f"{size[0]}x{size[1]}"] if size else []),
            file_size(len(self.data)),
        ]
        return ", ".join(facts)

    def text(self) -> str:
        """The text that a model reads, also one that is shown the image."""
        return "\n".join(filter(None, (self.alt, f"[image: {self.about()}]")))


class Blob(KnownResult, frozen=True):
    """A file: its text is read by the model, a PDF is shown to one that can read it, anything else is described."""

    kind: ClassVar[str] = "blob"
    data: bytes
    media_type: str = "application/octet-stream"
    name: str = ""
    display: DisplayHints | None = None

    def __post_init__(self) -> None:
        _check(self, self.data, self.media_type)

    def wire(self) -> dict[str, Any]:
        """The file as JSON: text as text, any other data in base64."""
        return _wire(self, {"name": self.name} if self.name else {})

    def about(self) -> str:
        """``report.pdf, application/pdf, 32 KB``"""
        from forge_cli.core.pictures import file_size

        return ", ".join(filter(None, (self.name, self.media_type, file_size(len(self.data)))))

    def text(self) -> str:
        """The text that a model reads: what it is, and the content where that is text."""
        content = decoded_text(self)
        return (
            f"[file: {self.about()}]" if content is None else f"[file: {self.about()}]\n{content}"
        )


def decoded_text(value: Image | Blob) -> str | None:
    """The content, where it is text; None where it is not."""
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
            f"{media_type!r} is not a media type for {name}: write one such as 'image/png'"
        )


def _wire(value: Image | Blob, more: dict[str, str]) -> dict[str, Any]:
    """Text as text, so that secrets in it are seen and redacted."""
    text = decoded_text(value)
    content = {"data": base64.b64encode(value.data).decode()} if text is None else {"text": text}
    found = {
        "kind": value.kind,
        "mediaType": value.media_type,
        **{key: clean_text(str(said)) for key, said in more.items()},
    }
    return {**found, **content, **({"display": value.display.wire()} if value.display else {})}


def _read(cls: type[MediaT], name: str, data: Any) -> MediaT:
    """As it was written; ``name`` is the field that describes it."""
    if not isinstance(data, dict):
        raise Unreadable("not an object")
    said = data.get(name, "")
    media_type = data.get("mediaType")
    display = data.get("display")
    if not isinstance(said, str) or not isinstance(media_type, str):
        raise Unreadable("mediaType: missing" if isinstance(said, str) else f"{name}: not a text")
    try:
        return cls(_content(data), media_type, said, read_display(display) if display else None)
    except ValueError as problem:
        raise Unreadable(str(problem)) from None


def _content(data: dict[str, Any]) -> bytes:
    match data:
        case {"text": str() as text}:
            return text.encode()
        case {"data": str() as encoded} if _REDACTED in encoded:
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
own_reader(
    Image | Blob,
    lambda data: reader(Image if isinstance(data, dict) and data.get("kind") == "image" else Blob)(
        data
    ),
)
