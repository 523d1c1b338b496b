"""Results from data: as they were written, as other code wrote them, and as a tool returned them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forge_cli.core.media import DisplayHints, read_display
from forge_cli.core.results import (
    Blob,
    Custom,
    Diff,
    FileContent,
    FileList,
    Image,
    Json,
    ResultValue,
    Text,
    as_result,
    is_well_known_kind,
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
