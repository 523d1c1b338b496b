"""Results of tools, as people see them and models read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.core.media import Blob, DisplayHints
from forge_cli.core.results import (
    FileContent,
    FileList,
    ResultValue,
    Table,
    is_valid_kind,
    is_well_known_kind,
)

__all__ = [
    "Blob",
    "DisplayHints",
    "FileContent",
    "FileList",
    "ResultValue",
    "Table",
    "is_valid_kind",
    "is_well_known_kind",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)
