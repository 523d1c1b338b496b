"""The rows and objects that a transaction changed, compared and shown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from hashlib import sha256
from typing import Any

from forge_cli import ToolError

Row = tuple[Any, ...]
Hidden = Mapping[str, frozenset[str]]
"""The columns that are never shown, by table."""
MAX_SHOWN = 20
"""The most changed rows that a question shows."""
MAX_CELL = 80
"""The most characters of a cell that a question shows."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")


@dataclass(frozen=True)
class Rows:
    """The first rows of a result."""

    columns: tuple[str, ...]
    rows: list[Row]
    more: bool = False


@dataclass(frozen=True)
class TableChange:
    """The rows of one table that a transaction changed."""

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    """The columns of the primary key; empty if there is none."""
    deleted: Sequence[Row] = ()
    inserted: Sequence[Row] = ()
    updated: Sequence[tuple[Row, Row]] = ()

    @property
    def count(self) -> int:
        return len(self.deleted) + len(self.inserted) + len(self.updated)

    @property
    def name(self) -> str:
        """The name without its schema."""
        return self.table.rpartition(".")[2].lower()


@dataclass(frozen=True)
class Changes:
    """Everything that a transaction changed, and the rows that its last statement returned."""

    tables: Sequence[TableChange] = ()
    objects: Sequence[str] = ()
    """Changed tables and other objects, each with a sign ``+`` or ``-``."""
    returned: Rows | None = None
    varying: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    """Columns whose new values differ each time, such as times and numbers of a sequence."""

    @property
    def count(self) -> int:
        return sum(table.count for table in self.tables)

    def words(self) -> Iterator[tuple[str, str]]:
        """Yield what was done to each table, by the first word of a statement that does it."""
        for table in self.tables:
            rows = {"insert": table.inserted, "update": table.updated, "delete": table.deleted}
            for word, found in rows.items():
                if found:
                    yield word, table.table

    def compared(self, varying: Collection[tuple[str, str]]) -> dict[str, Any]:
        """Return the changes as they are compared: counts and hashes, without varying values."""
        found: dict[str, Any] = {}
        if self.objects:
            found["objects"] = list(self.objects)
        for table in self.tables:
            ignored = {
                at for at, name in enumerate(table.columns) if (table.table, name) in varying
            }
            found[table.table] = {
                "deleted": len(table.deleted),
                "inserted": len(table.inserted),
                "updated": len(table.updated),
                "sha256": _hash(table, ignored),
            }
        if found:
            found["varying"] = sorted(map(list, varying))
        return found


def pair(
    table: str,
    columns: Sequence[str],
    key: Sequence[str],
    before: Sequence[Row],
    after: Sequence[Row],
) -> TableChange:
    """Return the change of a table from its old to its new rows; pairs are made by the key."""
    same = Counter(map(repr, before)) & Counter(map(repr, after))
    old = list(_without(before, same))
    new = list(_without(after, same))
    places = [columns.index(name) for name in key]
    updated: list[tuple[Row, Row]] = []
    if places:
        by_key = {tuple(row[at] for at in places): row for row in new}
        for row in list(old):
            other = by_key.get(tuple(row[at] for at in places))
            if other is not None:
                updated.append((row, other))
        gone = {id(row) for both in updated for row in both}
        old = [row for row in old if id(row) not in gone]
        new = [row for row in new if id(row) not in gone]
    return TableChange(table, tuple(columns), tuple(key), old, new, updated)


def _without(rows: Sequence[Row], same: Counter[str]) -> Iterator[Row]:
    left = Counter(same)
    for row in rows:
        if left[repr(row)] > 0:
            left[repr(row)] -= 1
        else:
            yield row


def varying_columns(
    first: Changes, second: Changes, began: datetime, ended: datetime
) -> frozenset[tuple[str, str]]:
    """Return the columns of new values that differ between two trials, or are the time of one.

    Raise ToolError if the trials changed different rows.
    """
    found: set[tuple[str, str]] = set()
    if [_shape(table) for table in first.tables] != [_shape(table) for table in second.tables]:
        raise _differs()
    for one, two in zip(first.tables, second.tables, strict=True):
        if sorted(map(repr, one.deleted)) != sorted(map(repr, two.deleted)):
            raise _differs()
        if [old for old, _ in one.updated] != [old for old, _ in two.updated]:
            raise _differs()
        new = [*one.inserted, *(row for _, row in one.updated)]
        again = [*two.inserted, *(row for _, row in two.updated)]
        for row, other in zip(new, again, strict=True):
            for name, value, repeated in zip(one.columns, row, other, strict=True):
                if repr(value) != repr(repeated) or _is_between(value, began, ended):
                    found.add((one.table, name))
    return frozenset(found)


def _shape(table: TableChange) -> tuple[Any, ...]:
    return table.table, len(table.deleted), len(table.inserted), len(table.updated)


def _differs() -> ToolError:
    return ToolError(
        "the statement changes other rows each time it is tried; name the rows by their key, or "
        "add ORDER BY to LIMIT"
    )


def _is_between(value: Any, began: datetime, ended: datetime) -> bool:
    """Return True for a point in time while a trial ran, give or take a second."""
    moment = value
    if isinstance(value, str) and _TIME.match(value):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return False
    if not isinstance(moment, datetime):
        return False
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return began.timestamp() - 1 <= moment.timestamp() <= ended.timestamp() + 1


def _hash(table: TableChange, ignored: Collection[int]) -> str:
    lines: list[str] = []
    for sign, rows in (("-", table.deleted), ("+", table.inserted)):
        lines += [f"{sign}{_plain(row, ignored if sign == '+' else ())}" for row in rows]
    for old, new in table.updated:
        lines.append(f"~{_plain(old, ())}{_plain(new, ignored)}")
    return sha256("\n".join(sorted(lines)).encode("utf-8", "surrogatepass")).hexdigest()


def _plain(row: Row, ignored: Collection[int]) -> str:
    return repr([None if at in ignored else value for at, value in enumerate(row)])


def show(changes: Changes, hidden: Hidden) -> str:
    """Return the changes as lines with signs, the first rows of each table."""
    lines = list(changes.objects)
    room = MAX_SHOWN
    for table in changes.tables:
        lines.append(f"{table.table}: {_count(table)}")
        shown = list(_rows(table, hidden.get(table.name, frozenset()), room))
        lines += [line for _, line in shown]
        kept = len({number for number, _ in shown})
        room -= kept
        if kept < table.count:
            lines.append(f"  and {table.count - kept} more")
    if changes.varying:
        names = ", ".join(f"{table}.{column}" for table, column in sorted(changes.varying))
        lines.append(f"values that differ each time: {names}")
    return "\n".join(lines) or "no row changes"


def summary(changes: Changes) -> str:
    """Return the size of the changes in a few words."""
    parts = [f"{table.table}: {_count(table)}" for table in changes.tables]
    if changes.objects:
        parts.append("changed objects")
    return "; ".join(parts) or "no row changes"


def _count(table: TableChange) -> str:
    words = {"changed": table.updated, "new": table.inserted, "deleted": table.deleted}
    parts = []
    for word, rows in words.items():
        if rows:
            parts.append(f"{len(rows)} {'row' if len(rows) == 1 else 'rows'} {word}")
    return ", ".join(parts)


def _rows(table: TableChange, hidden: frozenset[str], room: int) -> Iterator[tuple[int, str]]:
    """Yield the lines of the first rows, each with the number of its row."""
    number = 0
    for old, new in table.updated:
        number += 1
        if number > room:
            return
        names = [
            name
            for name, before, after in zip(table.columns, old, new, strict=True)
            if name in table.key or before != after
        ]
        yield number, f"- {_line(table, old, hidden, names)}"
        yield number, f"+ {_line(table, new, hidden, names)}"
    for sign, rows in (("+", table.inserted), ("-", table.deleted)):
        for row in rows:
            number += 1
            if number > room:
                return
            yield number, f"{sign} {_line(table, row, hidden, table.columns)}"


def _line(table: TableChange, row: Row, hidden: frozenset[str], names: Sequence[str]) -> str:
    cells = []
    for name, value in zip(table.columns, row, strict=True):
        if name in names:
            text = "(hidden)" if name.lower() in hidden else literal(value)
            cells.append(f"{name}={text}")
    return " ".join(cells)


def literal(value: Any) -> str:
    """Return a value as SQL writes it, shortened."""
    match value:
        case None:
            return "NULL"
        case bool() | int() | float() | Decimal():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return f"({len(bytes(value))} bytes)"
        case datetime() | date() | time():
            text = str(value)
        case _:
            text = str(value)
    if len(text) > MAX_CELL:
        text = f"{text[:MAX_CELL]}..."
    return "'" + text.replace("'", "''").replace("\n", "\\n") + "'"


Check = Callable[[Changes], None]
