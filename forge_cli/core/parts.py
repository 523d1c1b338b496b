"""Results that were given in parts: one text with the images and files of all of them, as many as can be kept."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from forge_cli.core.media import MEDIA_LIMIT, Blob, Image
from forge_cli.core.results import Json, Text, as_result, shown_files


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
