"""SQLite: reading under an authorizer, and changes that temporary triggers report."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forge_cli import ToolError
from forge_tools_sql.changes import Changes, Check, Row, Rows, pair
from forge_tools_sql.database import Unreachable

_LOG = "_forge_changes"
_READS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
_FORBIDDEN_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "writefile", "edit"})
_BEYOND = frozenset(
    {
        sqlite3.SQLITE_ATTACH,
        sqlite3.SQLITE_DETACH,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
        sqlite3.SQLITE_PRAGMA,
    }
)
"""Actions that a rollback does not take back, or that end the transaction."""
_MAX_ARGS = 100
"""The most arguments of a function of SQLite."""


@dataclass(frozen=True)
class Sqlite:
    """A database in a file."""

    path: Path
    timeout: float
    max_changes: int
    dialect: str = "sqlite"

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        try:
            address = f"{self.path.resolve().as_uri()}?mode={mode}"
            db = sqlite3.connect(address, uri=True, isolation_level=None, timeout=self.timeout)
        except sqlite3.Error as error:
            raise Unreachable(f"the database cannot be opened: {error}") from None
        with closing(db):
            ends = time.monotonic() + self.timeout
            db.set_progress_handler(lambda: time.monotonic() > ends, 10_000)
            try:
                yield db
            except sqlite3.Error as error:
                if time.monotonic() > ends:
                    raise ToolError(f"it took more than {self.timeout:g} s") from None
                raise ToolError(f"SQLite: {error}") from None
            finally:
                db.set_authorizer(None)
                db.set_progress_handler(None, 0)
                if db.in_transaction:
                    db.execute("rollback")

    def read(self, sql: str, limit: int, hidden: Sequence[str] = ()) -> Rows:
        with self._open("ro") as db:
            db.execute("pragma query_only = on")
            db.execute("begin")
            db.set_authorizer(_reading(hidden))
            found = db.execute(sql)
            rows = found.fetchmany(limit + 1)
            columns = tuple(column[0] for column in found.description or ())
        return Rows(columns, rows[:limit], len(rows) > limit)

    def tables(self) -> Rows:
        return self._list(
            "select name, type from sqlite_master where type in ('table', 'view') "
            "and name not like 'sqlite\\_%' escape '\\' order by name"
        )

    def columns(self, table: str) -> Rows:
        return self._list(
            "select name, type, case \"notnull\" when 0 then 'yes' else 'no' end as nullable, "
            "dflt_value as \"default\", case pk when 0 then '' else 'primary' end as key "
            "from pragma_table_xinfo(?) where hidden <> 1 order by cid",
            table.rpartition(".")[2],
        )

    def views(self) -> Mapping[str, str]:
        found = self._list("select name, sql from sqlite_master where type = 'view'")
        return {str(name).lower(): str(sql) for name, sql in found.rows}

    def explain(self, sql: str) -> Rows:
        with self._open("ro") as db:
            found = db.execute(f"explain query plan {sql}")
            return Rows(("step",), [(row[3],) for row in found.fetchall()])

    def _list(self, sql: str, *args: str) -> Rows:
        with self._open("ro") as db:
            found = db.execute(sql, args)
            return Rows(tuple(column[0] for column in found.description), found.fetchall())

    def change(self, statements: Sequence[str], check: Check | None) -> Changes:
        with self._open("rw") as db:
            # Set here, because no pragma works within a transaction.
            db.execute("pragma foreign_keys = on")
            if self._replaces(db, statements):
                db.execute("pragma recursive_triggers = on")
            db.execute("begin immediate")
            objects = _objects(db)
            watched = _watch(db)
            returned = self._execute(db, statements)
            changes = self._collect(db, watched, objects, returned)
            if check is not None:
                check(changes)
                _unwatch(db, watched)
                db.execute("commit")
        return changes

    def run(self, sql: str) -> Changes:
        with self._open("rw") as db:
            db.execute("pragma foreign_keys = on")
            returned: Rows | None = None
            for statement in complete_statements(sql):
                returned = _returned(db.execute(statement), self.max_changes)
        return Changes(returned=returned)

    def _replaces(self, db: sqlite3.Connection, statements: Sequence[str]) -> bool:
        """Return True if rows may be replaced, whose deletion fires triggers only if asked for."""
        schema = " ".join(str(sql) for (sql,) in db.execute("select sql from sqlite_master"))
        return re.search(r"\breplace\b", " ".join((schema, *statements)), re.I) is not None

    def _execute(self, db: sqlite3.Connection, statements: Sequence[str]) -> Rows | None:
        returned: Rows | None = None
        db.set_authorizer(_within_transaction)
        try:
            for text in statements:
                # Whoever writes to the log could hide a change from the question.
                if _LOG in text.lower():
                    raise ToolError(f"the name {_LOG} is used by the tool")
                for statement in complete_statements(text):
                    returned = _returned(db.execute(statement), self.max_changes)
        finally:
            db.set_authorizer(None)
        return returned

    def _collect(
        self,
        db: sqlite3.Connection,
        watched: Sequence[_Watched],
        objects: Sequence[str],
        returned: Rows | None,
    ) -> Changes:
        (count,) = db.execute(f"select count(*) from temp.{_LOG}").fetchone()
        if count > self.max_changes:
            raise ToolError(
                f"it would change {count:,} rows, more than `changes: {self.max_changes}` allows"
            )
        after = _objects(db)
        gone = [f"- {line}" for line in objects if line not in after]
        new = [f"+ {line}" for line in after if line not in objects]
        tables = [each.change(db) for each in watched]
        return Changes([each for each in tables if each.count], [*gone, *new], returned)


@dataclass(frozen=True)
class _Watched:
    """A table whose changed rows are logged by temporary triggers."""

    number: int
    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    identity: str
    """An expression on ``{}.`` that identifies a row."""

    def triggers(self) -> Iterator[str]:
        for event, sides in (
            ("insert", ("new",)),
            ("delete", ("old",)),
            ("update", ("old", "new")),
        ):
            values = ", ".join(
                f"{self.identity.format(side)}, {self._row(side)}"
                if side in sides
                else "null, null"
                for side in ("old", "new")
            )
            yield (
                f"create temp trigger {_LOG}_{self.number}_{event} after {event} on "
                f"main.{_quoted(self.name)} begin insert into {_LOG} values "
                f"(null, {self.number}, {values}); end"
            )

    def drops(self) -> Iterator[str]:
        for event in ("insert", "delete", "update"):
            yield f"drop trigger if exists temp.{_LOG}_{self.number}_{event}"

    def _row(self, side: str) -> str:
        quoted = [f"quote({side}.{_quoted(name)})" for name in self.columns]
        parts = [quoted[at : at + _MAX_ARGS] for at in range(0, len(quoted), _MAX_ARGS)]
        # JSON has no line break, so that one separates the parts.
        return " || char(10) || ".join(f"json_array({', '.join(part)})" for part in parts)

    def change(self, db: sqlite3.Connection) -> Any:
        """Return the change of the table: the first and the last state of each row."""
        states: dict[str, list[str | None]] = {}
        logged = db.execute(
            f"select old_id, old_row, new_id, new_row from temp.{_LOG} where number = ? order by n",
            [self.number],
        )
        for old_id, old_row, new_id, new_row in logged.fetchall():
            first: str | None = old_row
            if old_id is not None and old_id in states:
                first = states.pop(old_id)[0]
            if new_id is not None:
                if old_id is None and new_id in states:
                    first = states.pop(new_id)[0]
                states[new_id] = [first, new_row]
            elif first is not None:
                states[f"gone {old_id} {len(states)}"] = [first, None]
        before = [_read_row(first) for first, _ in states.values() if first is not None]
        after = [_read_row(last) for _, last in states.values() if last is not None]
        return pair(self.name, self.columns, self.key, before, after)


def _watch(db: sqlite3.Connection) -> list[_Watched]:
    db.execute(
        f"create temp table {_LOG} "
        "(n integer primary key, number int, old_id, old_row, new_id, new_row)"
    )
    tables = db.execute(
        "select name, wr from pragma_table_list where schema = 'main' and type = 'table' "
        "and name not like 'sqlite\\_%' escape '\\' order by name"
    ).fetchall()
    watched: list[_Watched] = []
    for number, (name, without_rowid) in enumerate(tables):
        info = db.execute("select name, pk from pragma_table_xinfo(?)", [name]).fetchall()
        key = [column for column, place in sorted(info, key=lambda row: row[1]) if place]
        identity = "{}.rowid"
        if without_rowid:
            identity = " || ',' || ".join(f"quote({{0}}.{_quoted(column)})" for column in key)
        columns = tuple(column for column, _ in info)
        each = _Watched(number, name, columns, tuple(key), identity)
        for trigger in each.triggers():
            db.execute(trigger)
        watched.append(each)
    return watched


def _unwatch(db: sqlite3.Connection, watched: Iterable[_Watched]) -> None:
    for each in watched:
        for statement in each.drops():
            db.execute(statement)
    db.execute(f"drop table temp.{_LOG}")


def _objects(db: sqlite3.Connection) -> list[str]:
    found = db.execute(
        "select type, name, coalesce(sql, '') from main.sqlite_master "
        "where name not like 'sqlite\\_%' escape '\\' order by type, name"
    )
    return [f"{kind} {name}: {' '.join(sql.split())}" for kind, name, sql in found]


def _returned(found: sqlite3.Cursor, limit: int) -> Rows | None:
    if found.description is None:
        return None
    rows = found.fetchall()
    columns = tuple(column[0] for column in found.description)
    return Rows(columns, rows[:limit], len(rows) > limit)


def _read_row(text: str) -> Row:
    cells: list[Any] = []
    for part in text.split("\n"):
        cells += map(_read_literal, json.loads(part))
    return tuple(cells)


def _read_literal(text: str) -> Any:
    if text == "NULL":
        return None
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith(("X'", "x'")):
        return bytes.fromhex(text[2:-1])
    try:
        return int(text)
    except ValueError:
        return float(text)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _reading(hidden: Sequence[str]) -> Any:
    """Return an authorizer for reading, which shows hidden columns as null, also those of views."""
    names = frozenset(name.lower() for name in hidden)

    def decide(action: int, one: str | None, two: str | None, *more: Any) -> int:
        if action not in _READS:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and str(two).lower() in _FORBIDDEN_FUNCTIONS:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_READ and f"{one}.{two}".lower() in names:
            return sqlite3.SQLITE_IGNORE
        return sqlite3.SQLITE_OK

    return decide


def _within_transaction(action: int, one: str | None, two: str | None, *more: Any) -> int:
    """Deny what a rollback does not take back."""
    if action in _BEYOND:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and str(two).lower() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def complete_statements(sql: str) -> list[str]:
    """Take a text apart as SQLite does, so that the body of a trigger stays whole."""
    found = [""]
    for piece in sql.split(";"):
        found[-1] += f"{piece};"
        if sqlite3.complete_statement(found[-1]):
            found.append("")
    if found[-1].strip("; \t\r\n"):
        raise ToolError("SQLite: the last statement is not complete")
    return [each.strip() for each in found if each.strip("; \t\r\n")]
