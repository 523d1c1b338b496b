"""The results of tools: seven well-known kinds and custom ones, with a text for the model and a form for the wire."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import accumulate, chain
from typing import Any, ClassVar

from msgspec.structs import replace

from forge_cli.core.media import MEDIA_LIMIT, KnownResult, read_display
from forge_cli.core.media import Blob as Blob
from forge_cli.core.media import DisplayHints as DisplayHints
from forge_cli.core.media import Image as Image
from forge_cli.core.text import cut
from forge_cli.core.wire import (
    OnWire,
    Unreadable,
    camel_case,
    clean_text,
    decode_text,
    jsonable,
    own_reader,
    read,
    snake_case,
)

VALUE_LIMIT = 1024 * 1024
MODEL_LIMIT = 20_000
TRIAL_LIMIT = 4 * VALUE_LIMIT
"""Characters that a trial may show: nothing of it is cut, and what does not fit is not applied."""
OUTPUT_LIMIT = VALUE_LIMIT - 1000
"""Bytes that a process may have written, so that a result holds them and what stands beside, such as the exit code."""
ORIGINAL_LIMIT = 100_000
WELL_KNOWN_KINDS = frozenset({"text", "diff", "file_content", "file_list", "json", "image", "blob"})

_json_text = json.JSONEncoder(ensure_ascii=False).encode
_KIND = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


def is_valid_kind(kind: object) -> bool:
    """Lowercase letters, digits and underscores, dots between namespaces, each part starting with a letter."""
    return isinstance(kind, str) and _KIND.fullmatch(kind) is not None


def is_well_known_kind(kind: object) -> bool:
    """Return True for a kind that every UI can draw, such as ``diff``."""
    return isinstance(kind, str) and kind in WELL_KNOWN_KINDS


class Text(KnownResult, frozen=True):
    """Plain text."""

    kind: ClassVar[str] = "text"
    content: str
    display: DisplayHints | None = None
    files: tuple[Image | Blob, ...] | None = None
    """The images and files that came with it."""

    def text(self) -> str:
        """The text that the model reads: the content."""
        return self.content


class Diff(KnownResult, frozen=True):
    """A file that was written; ``original`` is None for a new file and where it is too large to repeat."""

    kind: ClassVar[str] = "diff"
    path: str
    original: str | None
    modified: str
    is_new: bool
    bytes_written: int
    display: DisplayHints | None = None
    model_text: str | None = None
    """The text that the model reads, where that is not one line that says what was written."""

    @classmethod
    def of(cls, path: str, original: str | None, modified: str) -> Diff:
        """The change of a file from one text to another."""
        shown = original if original is not None and len(original) <= ORIGINAL_LIMIT else None
        return cls(
            path, shown, modified, is_new=original is None, bytes_written=len(modified.encode())
        )

    def text(self) -> str:
        """The text that the model reads: what was written."""
        if self.model_text is not None:
            return self.model_text
        if self.original == self.modified:
            return f"{self.path}: no change"
        return (
            f"{'Created' if self.is_new else 'Changed'} {self.path} ({self.bytes_written} bytes)."
        )


class FileContent(KnownResult, frozen=True):
    """A file, or some lines of it from ``first_line`` on, of ``total_lines`` where that is known."""

    kind: ClassVar[str] = "file_content"
    path: str
    content: str
    size: int
    display: DisplayHints | None = None
    first_line: int | None = None
    total_lines: int | None = None
    numbered: bool | None = None
    """The model reads each line with its number."""

    def text(self) -> str:
        """The text that the model reads: the content, with what was left out."""
        if self.first_line is None:
            return self.content
        lines = self.content.removesuffix("\n").split("\n") if self.content else []
        if not lines:
            return f"{self.path} is empty."
        last = self.first_line + len(lines) - 1
        if not self.numbered and (self.first_line, last) == (1, self.total_lines):
            return self.content
        total = "" if self.total_lines is None else f" of {self.total_lines}"
        if self.total_lines is not None and last < self.total_lines:
            total += f", next offset {last + 1}"
        if self.numbered:
            lines = [
                f"{at}: {line}".removesuffix("\r") for at, line in enumerate(lines, self.first_line)
            ]
        return "\n".join([f"[{self.path}, lines {self.first_line}-{last}{total}]", *lines])


class FileList(KnownResult, frozen=True):
    """The entries of a folder, as names; a folder's name ends with a slash."""

    kind: ClassVar[str] = "file_list"
    path: str
    files: tuple[str, ...]
    count: int
    display: DisplayHints | None = None

    @classmethod
    def of(cls, path: str, files: tuple[str, ...]) -> FileList:
        """The files of a folder, all of them."""
        return cls(path, files, len(files))

    def text(self) -> str:
        """The text that the model reads: a file a line."""
        more = [f"[{self.count - len(self.files)} more]"] if self.count > len(self.files) else []
        return "\n".join([*self.files, *more]) or f"{self.path} is empty."


class Json(KnownResult, frozen=True):
    """Data of any shape that JSON has."""

    kind: ClassVar[str] = "json"
    data: Any
    display: DisplayHints | None = None
    model_text: str | None = None
    """The text that the model reads, where a sentence says it better than JSON."""
    files: tuple[Image | Blob, ...] | None = None

    def text(self) -> str:
        """The text that the model reads: the data as JSON, unless the tool says it otherwise."""
        return self.model_text if self.model_text is not None else self.json()

    def json(self) -> str:
        """The data as JSON text."""
        return _json_text(jsonable(self.data))


class Custom(OnWire, frozen=True):
    """A result of a kind of your own, such as ``git.status``; a renderer can turn it into a well-known one."""

    kind: str
    data: Any
    summary: str | None = None
    mime_type: str | None = None
    display: DisplayHints | None = None
    model_text: str | None = None
    """The text that the model reads, where that is not the summary and the data as JSON."""

    def __post_init__(self) -> None:
        if not is_valid_kind(self.kind) or is_well_known_kind(self.kind):
            remedy = "lowercase words joined by dots, such as 'git.status', and none of the well-known kinds"
            raise ValueError(f"{self.kind!r} is not a kind for a custom result: use {remedy}")

    def text(self) -> str:
        """The text that the model reads: the summary, where there is one, and the data."""
        if self.model_text is not None:
            return self.model_text
        data = self.data if isinstance(self.data, str) else _json_text(jsonable(self.data))
        return f"{self.summary}\n{data}" if self.summary else data


ResultValue = Text | Diff | FileContent | FileList | Json | Image | Blob | Custom


def _read(data: Any) -> Any:
    return read_result(data)


own_reader(ResultValue, _read)


def as_result(value: Any) -> ResultValue:
    """The return value of a tool as a result: strings are text, a mapping with a kind is of it, other data is JSON."""
    match value:
        case Text() | Diff() | FileContent() | FileList() | Json() | Image() | Blob() | Custom():
            return sound(value)
        case [*parts] if any(isinstance(part, ResultValue) for part in parts):
            return joined(parts)
        case None:
            return Text("The tool returned nothing.")
        case str():
            return Text(clean_text(value))
        case bytes() | bytearray():
            return Text(decode_text(bytes(value)))
        case {"kind": str() as kind, "data": data, **rest} if is_valid_kind(
            kind
        ) and not is_well_known_kind(kind):
            return custom(kind, data, rest)
        case {"kind": str() as kind} if is_well_known_kind(kind):
            return well_known(jsonable(value))
        case _:
            return Json(jsonable(value))


def is_misfit(returned: Any, result: ResultValue) -> bool:
    """Return True if it names a well-known kind and lacks a field of that kind, so that the result is JSON."""
    match returned:
        case Json() | {"kind": "json", "data": _}:
            return False
        case {"kind": kind}:
            claimed = is_well_known_kind(kind)
        case _:
            claimed = isinstance(returned, ResultValue)
    return claimed and isinstance(result, Json)


def bounded(value: ResultValue, limit: int = VALUE_LIMIT) -> ResultValue:
    """The same result, small enough to keep."""
    match value:
        case Text() | Json() | Image() | Blob() if (
            sum(len(file.data) for file in shown_files(value)) > MEDIA_LIMIT
        ):
            return bounded(with_few_files(value), limit)
        case Text(content=content):
            return value if len(content) <= limit else replace(value, content=cut(content, limit))
        case FileContent(content=content) if (
            len(content) > limit
        ):  # behind the cut the numbers would be wrong
            return replace(value, content=cut(content, limit), first_line=None, numbered=None)
        case FileContent():
            return value
        case Diff():
            return replace(
                value, modified=cut(value.modified, limit), model_text=_cut(value.model_text, limit)
            )
        case FileList(files=files):
            return replace(value, files=files[:20_000])
        case Json():
            text = value.json()
            said = _cut(value.model_text, limit)
            if len(text) > limit:
                return Text(cut(text, limit), value.display, value.files)
            return value if said is value.model_text else replace(value, model_text=said)
        case Image() | Blob():
            return value
        case Custom():
            data = jsonable(value.data)
            fits = _characters(data) <= limit
            kept = value if fits else replace(value, data=cut(_json_text(data), limit))
            return replace(
                kept, summary=_cut(value.summary, limit), model_text=_cut(value.model_text, limit)
            )


def _cut(text: str | None, limit: int) -> str | None:
    return cut(text, limit) if text else text


def _characters(data: Any) -> int:
    """How much there is to read in JSON data, without what its notation adds."""
    match data:
        case str():
            return len(data)
        case dict():
            return sum(len(key) + _characters(value) for key, value in data.items())
        case list():
            return sum(1 + _characters(item) for item in data)
        case _:
            return len(str(data))


def shown_files(value: ResultValue) -> tuple[Image | Blob, ...]:
    """The files of a result that a model that sees may be shown, beside its text."""
    if isinstance(value, Image | Blob):
        return (value,)
    if isinstance(value, Text | Json):
        return value.files or ()
    return ()


def for_model(value: ResultValue, limit: int = MODEL_LIMIT) -> str:
    """The text of a result that the model reads."""
    return clean_text(cut(value.text(), limit))


def well_known(said: dict[str, Any]) -> ResultValue:
    """A mapping as the result whose kind it names, if it has all that this kind needs; else it is JSON."""
    match {"original": None, **{snake_case(str(key)): value for key, value in said.items()}}:
        case {"kind": "text", "content": str()} | {"kind": "json", "data": _}:
            return from_wire(said)
        case {
            "kind": "diff",
            "path": str() as path,
            "original": str() | None as original,
            "modified": str() as new,
        }:
            return from_wire({**said, **Diff.of(path, original, new).wire()})
        case {"kind": "file_content", "path": str() as path, "content": str() as content}:
            return from_wire({**said, **FileContent(path, content, len(content.encode())).wire()})
        case {"kind": "file_list", "path": str() as path, "files": [*files]} if all(
            isinstance(name, str) for name in files
        ):
            return from_wire({**said, **FileList.of(path, tuple(files)).wire()})
        case {"kind": "image" | "blob", "data": str()} | {"kind": "image" | "blob", "text": str()}:
            return from_wire(said)
        case _:
            return Json(said)


def sound(value: ResultValue) -> ResultValue:
    """The same, or its data as JSON where its fields do not hold what their types say: it could not be read back."""
    data = value.wire()
    try:
        read_result(data)
    except Unreadable:
        return Json(data)
    return value


def read_result(data: Any) -> ResultValue:
    """A result as it was written; Unreadable where it was not."""
    kind = data.get("kind") if isinstance(data, dict) else None
    return read(_KINDS.get(kind, Custom) if isinstance(kind, str) else Custom, data)


def from_wire(data: Any) -> ResultValue:
    """A result as other code wrote it, such as a program; what cannot be read as its kind is JSON."""
    if not isinstance(data, dict) or not is_well_known_kind(data.get("kind")):
        return as_result(data)
    try:
        return read_result({camel_case(snake_case(str(key))): value for key, value in data.items()})
    except Unreadable:
        return Json(data)


_KINDS: dict[str, type[ResultValue]] = {
    each.kind: each for each in (Text, Diff, FileContent, FileList, Json, Image, Blob)
}


def custom(kind: str, data: Any, rest: Mapping[Any, Any]) -> Custom:
    """A mapping as a result of its own kind; ``rest`` is what it has besides."""
    summary = rest.get("summary")
    mime = rest.get("mime_type", rest.get("mimeType"))
    hints = rest.get("display")
    return Custom(
        kind,
        jsonable(data),
        summary=str(summary) if summary is not None else None,
        mime_type=str(mime) if mime is not None else None,
        display=hints if isinstance(hints, DisplayHints | None) else read_display(hints),
    )


def joined(parts: Iterable[Any]) -> Text:
    """One text of what a tool returned in parts, with the images and files of all of them."""
    results = [as_result(part) for part in parts]
    files = tuple(chain.from_iterable(map(shown_files, results)))
    return Text("\n".join(each.text() for each in results), files=files or None)


def with_few_files(value: Text | Json | Image | Blob) -> Text | Json:
    """The same with those of its first files that are small enough to keep together."""
    files = shown_files(value)
    sums = accumulate(len(file.data) for file in files)
    kept = (
        tuple(file for file, size in zip(files, sums, strict=True) if size <= MEDIA_LIMIT) or None
    )
    lost = "it is" if len(files) == 1 else f"{len(files) - len(kept or ())} of {len(files)} are"
    said = f"{value.text()}\n[{lost} not kept: a result holds {MEDIA_LIMIT:,} bytes of images and files at most]"
    return (
        replace(value, model_text=said, files=kept)
        if isinstance(value, Json)
        else Text(said, value.display, kept)
    )
