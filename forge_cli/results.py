"""Results of tools, as people see them and models read them."""

from __future__ import annotations

from forge_cli.core.media import Blob, DisplayHints, Image
from forge_cli.core.results import (
    Custom,
    Diff,
    FileContent,
    FileList,
    Json,
    ResultValue,
    Text,
    is_valid_kind,
    is_well_known_kind,
)

__all__ = [
    "Blob",
    "Custom",
    "Diff",
    "DisplayHints",
    "FileContent",
    "FileList",
    "Image",
    "Json",
    "ResultValue",
    "Text",
    "is_valid_kind",
    "is_well_known_kind",
]
