"""DuckDB: reading without any other file, and changes compared with a copy of the tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_cli import ToolError
from forge_tools_sql.changes import Changes, Check, Rows, TableChange, pair
from forge_tools_sql.database import Unreachable, Untriable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TABLES = """
select table_name from duckdb_tables() where not temporary and not internal order by table_name
"""
_OBJECTS = """
select 'table ' || table_name || ': ' || sql from duckdb_tables()
where not temporary and not internal
union all select 'view ' || view_name || ': ' || sql from duckdb_views() where not internal
union all select 'index ' || index_name || ': ' || sql from duckdb_indexes()
union all select 'sequence ' || sequence_name from duckdb_sequences()
"""
_COLUMNS = """
select c.column_name as name, data_type as type,
  case when is_nullable then 'yes' else 'no' end as nullable, column_default as "default",
  case when exists (select 1 from duckdb_constraints() k
    where k.table_oid = c.table_oid and constraint_type = 'PRIMARY KEY'
      and list_contains(constraint_column_names, c.column_name)) then 'primary' else '' end as key
from duckdb_columns() c where lower(table_name) = ? order by column_index
"""
_TRIED = frozenset(
    {"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "MERGE_INTO"}
)
"""Types of statements that a rollback takes back."""
MAX_COPIED = 5_000_000
"""The most rows that are copied for a trial."""


@dataclass(frozen=True)
class DuckDb:
    """A database in a file."""

    path: Path
    timeout: float
    max_changes: int
    dialect: str = "duckdb"

    @contextmanager
    def _open(self, *, read_only: bool) -> Iterator[DuckDBPyConnection]:
        try:
            import duckdb
        except ImportError:
            raise Unreachable(
                "DuckDB needs a package; run: pip install 'forge-tools-sql[duckdb]'"
            ) from None
        if not self.path.exists():
            raise Unreachable("the database cannot be opened: there is no such file")
        # Without external access no statement can read or write another file, or load code.
        settings: dict[str, Any] = {"enable_external_access": "false", "lock_configuration": "true"}
        try:
            db = duckdb.connect(str(self.path), read_only=read_only, config=settings)
        except duckdb.Error as error:
            raise Unreachable(f"the database cannot be opened ({type(error).__name__})") from None
        timer = threading.Timer(self.timeout, db.interrupt)
        timer.start()
        try:
            yield db
        except duckdb.InterruptException:
            raise ToolError(f"it took more than {self.timeout:g} s") from None
        except duckdb.Error as error:
            said = str(error).partition("\n")[0]
            raise ToolError(f"DuckDB: {said}") from None
        finally:
            timer.cancel()
            db.close()

    def read(self, sql: str, limit: int, hidden: Sequence[str] = ()) -> Rows:
        with self._open(read_only=True) as db:
            kinds = [each.type.name for each in db.extract_statements(sql)]
            if kinds != ["SELECT"]:
                raise ToolError("DuckDB: query takes one SELECT")
            return _rows(db.execute(sql), limit)

    def tables(self) -> Rows:
        return self._list(
            "select table_name as name, lower(table_type) as type "
            "from information_schema.tables order by 1"
        )

    def columns(self, table: str) -> Rows:
        return self._list(_COLUMNS, table.rpartition(".")[2].lower())

    def views(self) -> Mapping[str, str]:
        found = self._list("select view_name, sql from duckdb_views() where not internal")
        return {str(name).lower(): str(sql) for name, sql in found.rows}

    def explain(self, sql: str) -> Rows:
        with self._open(read_only=True) as db:
            if len(db.extract_statements(sql)) != 1:
                raise ToolError("DuckDB: explain takes one statement")
            found = db.execute(f"explain {sql}")
            return Rows(("plan",), [(row[1],) for row in found.fetchall()])

    def _list(self, sql: str, *args: str) -> Rows:
        with self._open(read_only=True) as db:
            found = db.execute(sql, list(args) or None)
            return Rows(_names(found), found.fetchall())

    def change(self, statements: Sequence[str], check: Check | None) -> Changes:
        with self._open(read_only=False) as db:
            db.execute("begin")
            tables = [name for (name,) in db.execute(_TABLES).fetchall()]
            self._check_size(db)
            objects = _lines(db)
            for number, name in enumerate(tables):
                db.execute(
                    f"create temp table _forge_{number} as select * from main.{_quoted(name)}"
                )
            returned: Rows | None = None
            for statement in statements:
                for each in db.extract_statements(statement):
                    if each.type.name not in _TRIED or "_forge_" in each.query.lower():
                        raise ToolError(f"DuckDB: {each.type.name.lower()} cannot be tried")
                    returned = _rows(db.execute(each), self.max_changes)
            after = _lines(db)
            gone = [f"- {line}" for line in objects if line not in after]
            new = [f"+ {line}" for line in after if line not in objects]
            left = {name for (name,) in db.execute(_TABLES).fetchall()}
            compared: list[TableChange] = []
            for number, name in enumerate(tables):
                if name in left:
                    change = self._compare(db, number, name)
                    compared += [change] if change.count else []
            changes = Changes(compared, [*gone, *new], returned)
            if check is None:
                db.execute("rollback")
                return changes
            check(changes)
            for number in range(len(tables)):
                db.execute(f"drop table temp._forge_{number}")
            db.execute("commit")
        return changes

    def run(self, sql: str) -> Changes:
        with self._open(read_only=False) as db:
            return Changes(returned=_rows(db.execute(sql), self.max_changes))

    def _check_size(self, db: DuckDBPyConnection) -> None:
        found = db.execute(
            "select coalesce(sum(estimated_size), 0) from duckdb_tables()"
        ).fetchone()
        if found and found[0] > MAX_COPIED:
            raise Untriable(f"the database has {found[0]:,} rows, more than a trial copies")

    def _compare(self, db: DuckDBPyConnection, number: int, name: str) -> TableChange:
        """Compare a table with its copy; a table with other columns is compared by its objects."""
        now, then = f"main.{_quoted(name)}", f"temp._forge_{number}"
        columns = _names(db.execute(f"select * from {now} limit 0"))
        if columns != _names(db.execute(f"select * from {then} limit 0")):
            return TableChange(name, columns)
        limit = self.max_changes + 1
        before = db.execute(f"from {then} except all from {now} limit {limit}").fetchall()
        after = db.execute(f"from {now} except all from {then} limit {limit}").fetchall()
        if max(len(before), len(after)) > self.max_changes:
            raise ToolError(f"it would change more rows than `changes: {self.max_changes}` allows")
        key = db.execute(
            "select constraint_column_names from duckdb_constraints() "
            "where table_name = ? and constraint_type = 'PRIMARY KEY'",
            [name],
        ).fetchone()
        # DuckDB returns rows in any order, and varying columns are found by comparing row by row.
        before.sort(key=repr)
        after.sort(key=repr)
        return pair(name, columns, key[0] if key else (), before, after)


def _lines(db: DuckDBPyConnection) -> list[str]:
    return sorted(str(line) for (line,) in db.execute(_OBJECTS).fetchall())


def _rows(found: Any, limit: int) -> Rows:
    rows = found.fetchmany(limit + 1)
    return Rows(_names(found), rows[:limit], len(rows) > limit)


def _names(found: Any) -> tuple[str, ...]:
    return tuple(column[0] for column in found.description or ())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
