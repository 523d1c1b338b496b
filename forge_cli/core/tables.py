"""Tables as results of tools, as CSV and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from forge_cli.core.media import DisplayHints, KnownResult
from forge_cli.core.text import counted, cut, visible
from forge_cli.core.wire import jsonable

_NEEDS_QUOTES = re.compile(r'[",\r\n]|^\s|\s$')
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


class Table(KnownResult, frozen=True):
    """Rows with one cell for each column, such as the result of a query."""

    kind: ClassVar[str] = "table"
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    """The rows; each cell is JSON data, and null is an absent value."""
    count: int | None = None
    """The number of all rows, if some are left out and the number is known."""
    more: bool | None = None
    """True if rows are left out whose number is unknown."""
    summary: str | None = None
    """A line above the table, also for the model."""
    display: DisplayHints | None = None
    model_text: str | None = None
    """The text for the model, if it is not the summary and the rows as CSV."""

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"row {number} of the table has {len(row)} cells, but there are "
                    f"{counted(len(self.columns), 'column')}"
                )

    @classmethod
    def of(
        cls,
        columns: Iterable[str],
        rows: Iterable[Iterable[Any]],
        *,
        limit: int | None = None,
        summary: str | None = None,
    ) -> Table:
        """Return a table of any Python values; dates, decimals and the like become text.

        With ``limit`` no more rows are read than that, and ``more`` is set if there is another one.
        """
        kept: list[tuple[Any, ...]] = []
        for row in rows:
            if limit is not None and len(kept) == limit:
                return cls(tuple(map(str, columns)), tuple(kept), more=True, summary=summary)
            kept.append(tuple(map(jsonable, row)))
        return cls(tuple(map(str, columns)), tuple(kept), summary=summary)

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, Any]]) -> Table:
        """Return a table of objects; a key that an object lacks is an absent value."""
        columns: dict[str, None] = {}
        for record in records:
            columns.update(dict.fromkeys(map(str, record)))
        rows = ([record.get(column) for column in columns] for record in records)
        return cls.of(columns, rows)

    def text(self) -> str:
        """Return the text for the model: the summary and the rows as CSV."""
        if self.model_text is not None:
            return self.model_text
        parts = [self.summary or "", self.csv().removesuffix("\n")]
        if missing := self.missing_rows():
            parts.append(f"[{missing}]")
        return "\n".join(filter(None, parts))

    def missing_rows(self) -> str:
        """Return how many rows are left out, such as ``12 more rows``; empty if none are."""
        if self.more:
            return "more rows"
        if self.count is None or self.count <= len(self.rows):
            return ""
        return counted(self.count - len(self.rows), "more row")

    def csv(self) -> str:
        """Return the columns and rows as CSV; an absent value has no quotes, an empty text has."""
        lines = [self.columns, *self.rows]
        return "".join(f"{','.join(map(_csv_cell, line))}\n" for line in lines)

    def markdown(self) -> str:
        """Return the columns and rows as a table in Markdown, without markup in the cells."""
        return "".join(f"{line}\n" for line in markdown_rows(self.columns, self.rows))

    def bounded(self, limit: int) -> Table:
        """Return the table with its first rows that have at most ``limit`` characters together.

        Cells that are too long are shortened.
        """
        longest = max(limit // 10, 1)
        kept: list[tuple[Any, ...]] = []
        size = 0
        was_cut = False
        for row in self.rows:
            short = tuple(_short_cell(item, longest) for item in row)
            # As JSON a cell has up to 4 characters more, and so has a row.
            size += 4 + sum(len(cell_text(item)) + 4 for item in short)
            if size > limit:
                break
            was_cut = was_cut or short != row
            kept.append(short)
        table = replace(
            self, summary=_cut(self.summary, longest), model_text=_cut(self.model_text, limit)
        )
        if was_cut:
            table = replace(table, rows=(*kept, *self.rows[len(kept) :]))
        if len(kept) == len(self.rows):
            return table
        count = self.count
        if count is None and not self.more:
            count = len(self.rows)
        return replace(table, rows=tuple(kept), count=count)


def cell_text(item: Any) -> str:
    """Return a value as the text of a cell."""
    if isinstance(item, str):
        return item
    return json.dumps(item, ensure_ascii=False)


def markdown_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    shown: Callable[[str], str] = visible,
) -> Iterator[str]:
    """Yield the lines of a table in Markdown; ``shown`` escapes hidden characters of a cell."""

    def line(cells: Iterable[Any]) -> str:
        texts = (_MARKDOWN.sub(r"\\\1", shown(cell_text(item))) for item in cells)
        return f"| {' | '.join(texts)} |"

    yield line(columns)
    yield f"|{'---|' * len(columns)}"
    yield from map(line, rows)


def _csv_cell(item: Any) -> str:
    if item is None:
        return ""
    text = cell_text(item)
    if text and not _NEEDS_QUOTES.search(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _short_cell(item: Any, limit: int) -> Any:
    text = cell_text(item)
    return item if len(text) <= limit else cut(text, limit)


def _cut(text: str | None, limit: int) -> str | None:
    return cut(text, limit) if text else text
