"""Results of tools: eight well-known kinds and custom kinds, as text for models and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, ClassVar

from msgspec.structs import replace

from forge_cli.core.media import MEDIA_LIMIT, KnownResult, read_display
from forge_cli.core.media import Blob as Blob
from forge_cli.core.media import DisplayHints as DisplayHints
from forge_cli.core.media import Image as Image
from forge_cli.core.tables import Table as Table
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

# The most characters of a value in a record, and of its text for the model.
VALUE_LIMIT = 1024 * 1024
MODEL_LIMIT = 20_000
TRIAL_LIMIT = 4 * VALUE_LIMIT
"""The most characters that a trial shows.

A preview is never cut; changes that do not fit are not applied.
"""
OUTPUT_LIMIT = VALUE_LIMIT - 1000
"""The most bytes of output of a process, so that a result has room for its exit code as well."""
ORIGINAL_LIMIT = 100_000
WELL_KNOWN_KINDS = frozenset(
    {"text", "diff", "file_content", "file_list", "json", "table", "image", "blob"}
)

_json_text = json.JSONEncoder(ensure_ascii=False).encode
_KIND = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")


def is_valid_kind(kind: object) -> bool:
    """Return True if ``kind`` is a name of lowercase words that are joined by dots."""
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
    """Images and files that belong to the text."""

    def text(self) -> str:
        """Return the content."""
        return self.content


class Diff(KnownResult, frozen=True):
    """A written file; ``original`` is None for a new file or if it is too large to repeat."""

    kind: ClassVar[str] = "diff"
    path: str
    original: str | None
    modified: str
    is_new: bool
    bytes_written: int
    display: DisplayHints | None = None
    model_text: str | None = None
    """The text for the model, if it is not the usual line about the write."""

    @classmethod
    def of(cls, path: str, original: str | None, modified: str) -> Diff:
        """Return the change of a file from one text to another."""
        shown = original
        if original is not None and len(original) > ORIGINAL_LIMIT:
            shown = None
        return cls(
            path, shown, modified, is_new=original is None, bytes_written=len(modified.encode())
        )

    def text(self) -> str:
        """Return a line for the model about the write."""
        if self.model_text is not None:
            return self.model_text
        if self.original == self.modified:
            return f"{self.path}: no change"
        verb = "Created" if self.is_new else "Changed"
        return f"{verb} {self.path} ({self.bytes_written} bytes)."


class FileContent(KnownResult, frozen=True):
    """A file, or its lines from ``first_line`` on; ``total_lines`` is None if unknown."""

    kind: ClassVar[str] = "file_content"
    path: str
    content: str
    size: int
    display: DisplayHints | None = None
    first_line: int | None = None
    total_lines: int | None = None
    numbered: bool | None = None
    """True if the model reads each line with its number."""

    def text(self) -> str:
        """Return the content for the model, with a heading about omitted lines."""
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
    """The entries of a folder by name; names of folders end with a slash."""

    kind: ClassVar[str] = "file_list"
    path: str
    files: tuple[str, ...]
    count: int
    display: DisplayHints | None = None

    @classmethod
    def of(cls, path: str, files: tuple[str, ...]) -> FileList:
        """Return the complete list of a folder's files."""
        return cls(path, files, len(files))

    def text(self) -> str:
        """Return the names for the model, one per line."""
        names = list(self.files)
        if self.count > len(self.files):
            names.append(f"[{self.count - len(self.files)} more]")
        return "\n".join(names) or f"{self.path} is empty."


class Json(KnownResult, frozen=True):
    """Data of any JSON type."""

    kind: ClassVar[str] = "json"
    data: Any
    display: DisplayHints | None = None
    model_text: str | None = None
    """The text for the model, if a sentence is clearer than JSON."""
    files: tuple[Image | Blob, ...] | None = None

    def text(self) -> str:
        """Return the text for the model: the data as JSON, unless the tool provides a text."""
        return self.model_text if self.model_text is not None else self.json()

    def json(self) -> str:
        """Return the data as JSON text."""
        return _json_text(jsonable(self.data))


class Custom(OnWire, frozen=True):
    """A result of a custom kind, such as ``git.status``; a renderer can convert it for UIs."""

    kind: str
    data: Any
    summary: str | None = None
    mime_type: str | None = None
    display: DisplayHints | None = None
    model_text: str | None = None
    """The text for the model, if it is not the summary and the data as JSON."""

    def __post_init__(self) -> None:
        if not is_valid_kind(self.kind) or is_well_known_kind(self.kind):
            raise ValueError(
                f"{self.kind!r} is not a kind for a custom result: use lowercase words joined by "
                "dots, such as 'git.status', and none of the well-known kinds"
            )

    def text(self) -> str:
        """Return the text for the model: the summary, if any, and the data."""
        if self.model_text is not None:
            return self.model_text
        data = self.data if isinstance(self.data, str) else _json_text(jsonable(self.data))
        return f"{self.summary}\n{data}" if self.summary else data


ResultValue = Text | Diff | FileContent | FileList | Json | Table | Image | Blob | Custom


def as_result(value: Any) -> ResultValue:
    """Convert the return value of a tool to a result.

    Strings become text, a mapping with a kind becomes a result of that kind, other data is JSON.
    """
    match value:
        case Text() | Diff() | FileContent() | FileList() | Json():
            return sound(value)
        case Table() | Image() | Blob() | Custom():
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
    """Return True if a value claims a well-known kind, but lacks its fields and became JSON."""
    match returned:
        case Json() | {"kind": "json", "data": _}:
            return False
        case {"kind": kind}:
            claimed = is_well_known_kind(kind)
        case _:
            claimed = isinstance(returned, ResultValue)
    return claimed and isinstance(result, Json)


def bounded(value: ResultValue, limit: int = VALUE_LIMIT) -> ResultValue:
    """Return the result, cut to a size that a record can hold."""
    match value:
        case Text() | Json() | Image() | Blob() if (
            sum(len(file.data) for file in shown_files(value)) > MEDIA_LIMIT
        ):
            return bounded(with_few_files(value), limit)
        case Text(content=content) if len(content) > limit:
            return replace(value, content=cut(content, limit))
        case Text():
            return value
        case FileContent(content=content) if len(content) > limit:
            # Line numbers would be wrong after the cut.
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
            if said is value.model_text:
                return value
            return replace(value, model_text=said)
        case Table(columns=columns) if sum(map(len, columns)) > limit:
            return Text(cut(value.text(), limit))
        case Table():
            return value.bounded(limit)
        case Image() | Blob():
            return value
        case Custom():
            data = jsonable(value.data)
            kept = value
            if _characters(data) > limit:
                kept = replace(value, data=cut(_json_text(data), limit))
            return replace(
                kept, summary=_cut(value.summary, limit), model_text=_cut(value.model_text, limit)
            )


def _cut(text: str | None, limit: int) -> str | None:
    return cut(text, limit) if text else text


def _characters(data: Any) -> int:
    """Return how many characters JSON data contains, without the syntax."""
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
    """Return the files of a result that a model with vision may see."""
    if isinstance(value, Image | Blob):
        return (value,)
    if isinstance(value, Text | Json):
        return value.files or ()
    return ()


def for_model(value: ResultValue, limit: int = MODEL_LIMIT) -> str:
    """Return the text of a result as the model reads it."""
    return clean_text(cut(value.text(), limit))


def well_known(said: dict[str, Any]) -> ResultValue:
    """Convert a mapping to the result of its kind if it has all required fields; else to JSON."""
    # A new file has no original, so tools may leave it out.
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
        case {"kind": "table", "columns": [*columns], "rows": [*rows]} if all(
            isinstance(line, list) and len(line) == len(columns) for line in rows
        ):
            return from_wire({**said, "columns": [*map(str, columns)]})
        case {"kind": "image" | "blob", "data": str()} | {"kind": "image" | "blob", "text": str()}:
            return from_wire(said)
        case _:
            return Json(said)


def sound(value: ResultValue) -> ResultValue:
    """Return the result, or its data as JSON if its fields do not match their types."""
    # A record with such a result could not be read back.
    data = value.wire()
    try:
        read_result(data)
    except Unreadable:
        return Json(data)
    return value


def read_result(data: Any) -> ResultValue:
    """Read a result from the JSON of a record; raise Unreadable if it is invalid."""
    cls: type[Any] = Custom
    if isinstance(data, dict) and isinstance(kind := data.get("kind"), str):
        cls = _KINDS.get(kind, Custom)
    result: ResultValue = read(cls, data)
    return result


own_reader(ResultValue, read_result)


def from_wire(data: Any) -> ResultValue:
    """Read a result from the JSON of another program; it stays JSON if its kind does not fit."""
    if not isinstance(data, dict) or not is_well_known_kind(data.get("kind")):
        return as_result(data)
    try:
        return read_result({camel_case(snake_case(str(key))): value for key, value in data.items()})
    except Unreadable:
        return Json(data)


_KINDS: dict[str, type[ResultValue]] = {
    each.kind: each for each in (Text, Diff, FileContent, FileList, Json, Table, Image, Blob)
}


def custom(kind: str, data: Any, rest: Mapping[Any, Any]) -> Custom:
    """Return a result of a custom kind; ``rest`` has the optional fields."""
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
    """Join the parts that a tool returned to one text, with the images and files of all parts."""
    results = [as_result(part) for part in parts]
    files = tuple(chain.from_iterable(map(shown_files, results)))
    return Text("\n".join(each.text() for each in results), files=files or None)


def with_few_files(value: Text | Json | Image | Blob) -> Text | Json:
    """Return the result with its first files that fit within the size limit together."""
    files = shown_files(value)
    kept: list[Image | Blob] = []
    room = MEDIA_LIMIT
    for file in files:
        room -= len(file.data)
        if room < 0:
            break
        kept.append(file)
    lost = "it is"
    if len(files) != 1:
        lost = f"{len(files) - len(kept)} of {len(files)} are"
    limit = f"a result holds {MEDIA_LIMIT:,} bytes of images and files at most"
    text = f"{value.text()}\n[{lost} not kept: {limit}]"
    few = tuple(kept) or None
    if isinstance(value, Json):
        return replace(value, model_text=text, files=few)
    return Text(text, value.display, few)
