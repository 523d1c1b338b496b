"""The files of the page, which come with forge: nothing else is served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STATIC = Path(__file__).parent / "static"
CODE_COLOURS = Path(__file__).parents[2] / "ui" / "html" / "pygments.css"
"""The style sheet that exported sessions have, too."""
MEDIA_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class PageFile:
    """A file of the page."""

    data: bytes
    media_type: str


def read_page(name: str) -> PageFile | None:
    """One of the files by its name; None where there is no such file."""
    known = {path.name: path for path in (*STATIC.iterdir(), CODE_COLOURS) if path.suffix in MEDIA_TYPES}
    path = known.get(name)
    return PageFile(path.read_bytes(), MEDIA_TYPES[path.suffix]) if path else None
