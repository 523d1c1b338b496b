"""Results from data: as they were written, as other code wrote them, as a tool returned them, and from parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from forge_cli.core.media import MEDIA_LIMIT, Blob, DisplayHints, Image, read_display
from forge_cli.core.results import (
    Custom,
    Diff,
    FileContent,
    FileList,
    Json,
    ResultValue,
    Text,
    as_result,
    is_well_known_kind,
    shown_files,
)
from forge_cli.core.wire import Unreadable, camel_case, jsonable, read, snake_case


def well_known(said: dict[str, Any]) -> ResultValue:
    """A mapping as the result whose kind it names, if it has all that this kind needs; else it is JSON."""
    match {"original": None, **{snake_case(str(key)): value for key, value in said.items()}}:
        case {"kind": "text", "content": str()} | {"kind": "json", "data": _}:
            return from_wire(said)
        case {"kind": "diff", "path": str() as path, "original": str() | None as original, "modified": str() as new}:
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
    summary, mime, hints = rest.get("summary"), rest.get("mime_type", rest.get("mimeType")), rest.get("display")
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
    files = tuple(file for each in results for file in shown_files(each))
    return Text("\n".join(each.text() for each in results), files=files or None)


def with_few_files(value: Text | Json | Image | Blob) -> Text | Json:
    """The same with those of its first files that are small enough to keep together."""
    files = shown_files(value)
    sums = accumulate(len(file.data) for file in files)
    kept = tuple(file for file, size in zip(files, sums, strict=True) if size <= MEDIA_LIMIT) or None
    lost = "it is" if len(files) == 1 else f"{len(files) - len(kept or ())} of {len(files)} are"
    said = f"{value.text()}\n[{lost} not kept: a result holds {MEDIA_LIMIT:,} bytes of images and files at most]"
    return replace(value, model_text=said, files=kept) if isinstance(value, Json) else Text(said, value.display, kept)
