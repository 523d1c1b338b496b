"""PostgreSQL by psycopg: reading by a cursor, and changes as a second connection sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forge_cli import ToolError
from forge_tools_sql.changes import Changes, Check, Row, Rows, TableChange, pair
from forge_tools_sql.database import Unreachable, Untriable

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

_CURSOR = "forge_rows"
_LOCK_TIMEOUT = 1000
"""Milliseconds that the second connection waits for a table."""
_SYSTEM = "'pg_catalog', 'information_schema', 'pg_toast'"
_OBJECTS = f"""
select format('%s %s: %s',
  case c.relkind when 'r' then 'table' when 'p' then 'table' when 'v' then 'view'
    when 'm' then 'materialized view' when 'i' then 'index' else 'sequence' end,
  c.oid::regclass,
  (select string_agg(format('%s %s%s%s', attname, format_type(atttypid, atttypmod),
      case when attnotnull then ' not null' else '' end,
      coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')), ', ' order by attnum)
    from pg_attribute a left join pg_attrdef d on (adrelid, adnum) = (attrelid, attnum)
    where attrelid = c.oid and attnum > 0 and not attisdropped and c.relkind not in ('i', 'S')))
from pg_class c join pg_namespace n on n.oid = relnamespace
where nspname not in ({_SYSTEM}) and nspname !~ '^pg_(temp|toast_temp)_'
  and c.relkind in ('r', 'p', 'v', 'm', 'i', 'S')
union all
select format('constraint %s of %s: %s', conname, conrelid::regclass, pg_get_constraintdef(oid))
from pg_constraint where conrelid <> 0
union all
select format('trigger %s of %s: %s', tgname, tgrelid::regclass, pg_get_triggerdef(oid))
from pg_trigger where not tgisinternal
union all
select format('function %s: %s', p.oid::regprocedure, md5(prosrc))
from pg_proc p join pg_namespace n on n.oid = pronamespace where nspname not in ({_SYSTEM})
union all
select format('grants on %s: %s', c.oid::regclass, relacl)
from pg_class c join pg_namespace n on n.oid = relnamespace
where relacl is not null and nspname not in ({_SYSTEM})
"""
_FILES = f"""
select c.oid, c.oid::regclass::text, relfilenode
from pg_class c join pg_namespace n on n.oid = relnamespace
where relkind = 'r' and nspname not in ({_SYSTEM})
"""
_XID = "select pg_current_xact_id()::text::bigint % 4294967296"
_CHANGED = """
select relid, relid::regclass::text, n_tup_ins, n_tup_del from pg_stat_xact_user_tables
where n_tup_ins + n_tup_upd + n_tup_del > 0 order by 2
"""
_KEY = """
select attname from pg_index join pg_attribute on attrelid = indrelid and attnum = any (indkey)
where indrelid = %s and indisprimary order by array_position(indkey::int2[], attnum)
"""
_COLUMNS = """
select attname as name, format_type(atttypid, atttypmod) as type,
  case when attnotnull then 'no' else 'yes' end as nullable,
  pg_get_expr(adbin, adrelid) as "default",
  coalesce((select 'primary' from pg_index
    where indrelid = attrelid and indisprimary and attnum = any (indkey)), '') as key
from pg_attribute left join pg_attrdef on (adrelid, adnum) = (attrelid, attnum)
where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum
"""


@dataclass(frozen=True)
class Postgres:
    """A database on a server."""

    dsn: str
    timeout: float
    max_changes: int
    dialect: str = "postgres"

    @contextmanager
    def _open(self) -> Iterator[Connection[Row]]:
        try:
            import psycopg
        except ImportError:
            raise Unreachable(
                "PostgreSQL needs psycopg; run: pip install 'forge-tools-sql[postgres]'"
            ) from None
        milliseconds = round(self.timeout * 1000)
        options = f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}"
        try:
            db = psycopg.connect(
                self.dsn,
                autocommit=True,
                connect_timeout=10,
                options=options,
                application_name="forge-tools-sql",
            )
        except psycopg.Error as error:
            # The text of the error may contain the address, but never the class of the problem.
            raise Unreachable(f"the database cannot be reached ({type(error).__name__})") from None
        with db:
            try:
                yield db
            except psycopg.errors.LockNotAvailable:
                raise Untriable(
                    "another transaction holds a table, such as one that changes its columns"
                ) from None
            except psycopg.Error as error:
                said = error.diag.message_primary or str(error).partition("\n")[0]
                raise ToolError(f"PostgreSQL: {said}") from None
            finally:
                if not db.closed and db.info.transaction_status:
                    db.rollback()

    def read(self, sql: str, limit: int, hidden: Sequence[str] = ()) -> Rows:
        with self._open() as db:
            db.execute("begin read only")
            # A cursor takes only queries; a prepared statement is one statement on every server.
            _prepared(db, f"declare {_CURSOR} no scroll cursor for {sql}")
            found = db.execute(f"fetch {limit + 1} from {_CURSOR}")
            rows = found.fetchall()
            columns = _names(found)
            db.execute("rollback")
        return Rows(columns, rows[:limit], len(rows) > limit)

    def tables(self) -> Rows:
        return self._list(
            "select case table_schema when 'public' then '' else table_schema || '.' end "
            "|| table_name as name, "
            "case table_type when 'BASE TABLE' then 'table' else lower(table_type) end as type "
            "from information_schema.tables "
            f"where table_schema not in ({_SYSTEM}) order by 1"
        )

    def columns(self, table: str) -> Rows:
        return self._list(_COLUMNS, table)

    def views(self) -> Mapping[str, str]:
        found = self._list(
            f"select viewname, definition from pg_views where schemaname not in ({_SYSTEM}) "
            "union all select matviewname, definition from pg_matviews"
        )
        return {str(name).lower(): str(sql) for name, sql in found.rows}

    def explain(self, sql: str) -> Rows:
        with self._open() as db:
            db.execute("begin read only")
            found = _prepared(db, f"explain {sql}")
            rows = found.fetchall()
            db.execute("rollback")
        return Rows(("plan",), rows)

    def _list(self, sql: str, *args: str) -> Rows:
        with self._open() as db:
            db.execute("begin read only")
            found = db.execute(_query(sql), args or None)
            rows = found.fetchall()
            db.execute("rollback")
        return Rows(_names(found), rows)

    def change(self, statements: Sequence[str], check: Check | None) -> Changes:
        with self._open() as db, self._open() as outside:
            # It must not wait for the locks of the transaction that it is compared with.
            outside.execute(f"set lock_timeout = {_LOCK_TIMEOUT}")
            db.execute("begin")
            (xid,) = _one(db, _XID)
            objects = _lines(db, _OBJECTS)
            files = {oid: (name, file) for oid, name, file in db.execute(_query(_FILES))}
            emptied = self._before_truncate(db, statements)
            returned: Rows | None = None
            for statement in statements:
                found = _prepared(db, statement)
                if found.description is not None:
                    rows = found.fetchmany(self.max_changes + 1)
                    more = len(rows) > self.max_changes
                    returned = Rows(_names(found), rows[: self.max_changes], more)
            # Deferred triggers and constraints act at the commit, which a trial never reaches.
            db.execute("set constraints all immediate")
            if _one(db, _XID) != (xid,):
                raise ToolError("the statements ended the transaction; leave out BEGIN and COMMIT")
            changes = Changes(
                [*self._changed_tables(db, outside, xid, files), *self._emptied(db, emptied)],
                [*_differences(objects, _lines(db, _OBJECTS)), *_rewritten(db, files, emptied)],
                returned,
            )
            if changes.count > self.max_changes:
                raise self._too_many(changes.count)
            if check is not None:
                check(changes)
                db.execute("commit")
            else:
                db.execute("rollback")
        return changes

    def run(self, sql: str) -> Changes:
        with self._open() as db:
            found = db.execute(_query(sql))
            if found.description is None:
                return Changes()
            rows = found.fetchmany(self.max_changes + 1)
            more = len(rows) > self.max_changes
            return Changes(returned=Rows(_names(found), rows[: self.max_changes], more))

    def _changed_tables(
        self,
        db: Connection[Row],
        outside: Connection[Row],
        xid: int,
        files: Mapping[int, Any],
    ) -> Iterator[TableChange]:
        """Yield the changed rows of each table that the server counted changes of.

        The second connection still sees the old rows: those that this transaction replaced or
        deleted have its number, or one of its subtransactions, as ``xmax``.
        """
        for oid, name, inserted, deleted in db.execute(_CHANGED).fetchall():
            if inserted + deleted > 4 * self.max_changes:
                raise self._too_many(inserted + deleted)
            after = self._versions(db, name, "xmin", xid)
            # The second connection does not know a table that is new.
            before = self._versions(outside, name, "xmax", xid) if oid in files else {}
            here = self._present(db, name, before)
            there = self._present(outside, name, after) if oid in files else set[str]()
            old = {place: row for place, row in before.items() if place not in here}
            new = {place: row for place, row in after.items() if place not in there}
            if len(new) - len(old) != inserted - deleted:
                raise ToolError(
                    f"another session is changing rows of {name}, so the changes cannot be shown; "
                    "try again"
                )
            columns = _names(db.execute(_query(f"select * from only {name} limit 0")))
            key = [column for (column,) in db.execute(_KEY, [oid])]
            yield pair(name, columns, key, list(old.values()), list(new.values()))

    def _versions(self, db: Connection[Row], table: str, mark: str, xid: int) -> dict[str, Row]:
        """Return the rows that this transaction may have made or replaced, by their place."""
        found = db.execute(
            _query(
                f"select ctid::text, t.* from only {table} t where {mark}::text::bigint >= {xid} "
                f"order by ctid limit {2 * self.max_changes + 1}"
            )
        )
        return {row[0]: row[1:] for row in found}

    def _present(self, db: Connection[Row], table: str, rows: Mapping[str, Row]) -> set[str]:
        """Return those of the places that this connection sees, too."""
        if not rows:
            return set()
        found = db.execute(
            _query(f"select ctid::text from only {table} where ctid = any (%s::tid[])"),
            [list(rows)],
        )
        return {place for (place,) in found}

    def _before_truncate(
        self, db: Connection[Row], statements: Sequence[str]
    ) -> dict[str, list[Row]]:
        """Return the rows of tables that are going to be truncated, which leaves no versions."""
        from sqlglot import exp, parse_one

        found: dict[str, list[Row]] = {}
        for statement in statements:
            if not statement.lower().startswith("truncate"):
                continue
            for table in parse_one(statement, dialect=self.dialect).find_all(exp.Table):
                name = table.sql(dialect=self.dialect)
                rows = db.execute(
                    _query(f"select * from {name} limit {self.max_changes + 1}")
                ).fetchall()
                named = db.execute("select to_regclass(%s)::text", [name]).fetchone()
                found[named[0] if named else name] = rows
        return found

    def _emptied(
        self, db: Connection[Row], emptied: Mapping[str, list[Row]]
    ) -> Iterator[TableChange]:
        for name, rows in emptied.items():
            found = db.execute(_query(f"select * from {name}"))
            change = pair(name, _names(found), (), rows, found.fetchall())
            if change.count:
                yield change

    def _too_many(self, count: int) -> ToolError:
        return ToolError(
            f"it would change {count:,} rows, more than `changes: {self.max_changes}` allows"
        )


def _rewritten(
    db: Connection[Row], files: Mapping[int, tuple[str, int]], shown: Mapping[str, Any]
) -> Iterator[str]:
    """Yield tables with new files, which were emptied or rewritten as a whole."""
    for oid, name, file in db.execute(_query(_FILES)).fetchall():
        if oid in files and files[oid][1] != file and name not in shown:
            yield f"- {name}: all rows were deleted or rewritten, which is not shown in rows"


def _differences(before: Sequence[str], after: Sequence[str]) -> list[str]:
    old, new = set(before), set(after)
    gone = [f"- {line}" for line in before if line not in new]
    return [*gone, *(f"+ {line}" for line in after if line not in old)]


def _lines(db: Connection[Row], sql: str) -> list[str]:
    return sorted(str(line) for (line,) in db.execute(_query(sql)))


def _one(db: Connection[Row], sql: str) -> Row:
    row = db.execute(_query(sql)).fetchone()
    return row or ()


def _prepared(db: Connection[Row], sql: str) -> Cursor[Row]:
    """Execute one statement by the extended protocol, in which the server refuses several."""
    return db.execute(_query(sql), prepare=True)


def _query(sql: str) -> Any:
    # psycopg takes only literals, so that nobody joins texts by mistake; here SQL is the data.
    return sql


def _names(found: Cursor[Row]) -> tuple[str, ...]:
    return tuple(column.name for column in found.description or ())
