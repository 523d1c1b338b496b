"""Pictures in custom results by their names, with what their first bytes say."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from forge_cli.core.pictures import HEAD, dimensions, file_size

_NAMES = ("name", "path", "filename", "file")
_CONTENTS = ("data", "base64", "content")


def describe_image(mime: str, data: Any) -> str:
    """``image.png, 640x480, 32 KB``, as far as it can be seen without drawing it."""
    fields = data if isinstance(data, Mapping) else {}
    content = data if isinstance(data, str) else next((fields[key] for key in _CONTENTS if _is_text(fields, key)), None)
    name = next((fields[key] for key in _NAMES if _is_text(fields, key)), None)
    kind = mime.removeprefix("image/").partition("+")[0]
    size = dimensions(_decoded(content[: HEAD * 4 // 3])) if content else None
    facts = [name.rpartition("/")[2] if name else f"image.{kind}"]
    facts += [f"{size[0]}x{size[1]}"] if size else []
    facts += [file_size(len(content.rstrip("=")) * 3 // 4)] if content else []
    return ", ".join(facts)


def _is_text(fields: Mapping[str, Any], key: str) -> bool:
    return isinstance(fields.get(key), str) and fields[key] != ""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text[: len(text) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""
