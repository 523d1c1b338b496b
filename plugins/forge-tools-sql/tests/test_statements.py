"""Statements as the parser reads them: what reads, what changes, and what nobody may pre-approve."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from forge_tools_sql.config import SqlConfig
from forge_tools_sql.judging import judge
from forge_tools_sql.statements import read_statements

from forge_cli import Approval

NOWHERE = {"connections": {"main": {"dsn": "sqlite:nowhere.db"}}}
READING = {
    "postgres": [
        "select * from a join b using (x)",
        "with d as (select * from a) select * from d",
        "values (1)",
        "table a",
        "select count(*), max(x), lower(y), date_trunc('day', at) from a group by 1",
        "-- a comment\nselect 1",
        "select $tag$; delete from a $tag$",
        "select 'it''s; drop table a'",
        "select pg_catalog.upper('x')",
    ],
    "sqlite": ["select * from a where b like 'x%'", "select json_extract(a, '$.x') from b"],
    "duckdb": [
        "from a",
        "select list_value(1, 2)",
        "select * from a pivot (sum(x) for y in (1, 2))",
    ],
}
NOT_READING = {
    "postgres": [
        "with d as (delete from a returning *) select * from d",
        "select * into b from a",
        "select 1; delete from a",
        "select 1; select 2",
        "copy a to program 'x'",
        "copy a from '/etc/passwd'",
        "copy a to stdout",
        "select pg_read_file('/etc/passwd')",
        "select pg_ls_dir('.')",
        "select * from pg_read_binary_file('x')",
        "select lo_import('/etc/passwd')",
        "select lo_export(1, 'x')",
        "select dblink('dbname=x', 'delete from a')",
        "select * from dblink('dbname=x', 'delete from a') as t(x int)",
        "select dblink_exec('x', 'y')",
        "select nextval('s')",
        "select setval('s', 1)",
        "select set_config('a', 'b', false)",
        "select pg_terminate_backend(1)",
        "select pg_sleep(100)",
        "select pg_advisory_lock(1)",
        "select query_to_xml('delete from a', true, true, '')",
        "select my_function(1)",
        "select s.upper('x')",
        "select s.sum(x) from a",
        "select * from a for update",
        "explain analyze delete from a",
        "do $$ begin delete from a; end $$",
        "call p()",
        "prepare p as delete from a",
        "execute p",
        "declare c cursor for select 1",
        "set search_path to x",
        "reset all",
        "listen x",
        "notify x",
        "vacuum",
        "analyze a",
        "cluster a",
        "refresh materialized view x",
        "lock table a",
        "begin",
        "commit",
        "rollback",
        "savepoint x",
        "security label on table a is 'x'",
        "truncate a",
        "merge into a using b on a.x = b.x when matched then delete",
        "create table a (x int)",
        "create table a as select 1",
        "drop table a cascade",
        "grant all on a to b",
        "alter system set x = 1",
        "select /* a */ 1 /* b */; /* c */ drop table a",
        "select 1 --\n; drop table a",
        "this is no sql",
        "select 'unclosed",
        "((((((((",
        "",
    ],
    "sqlite": [
        "pragma user_version = 3",
        "pragma journal_mode(wal)",
        "pragma writable_schema = 1",
        "attach 'x' as y",
        "detach y",
        "replace into a values (1)",
        "insert or ignore into a values (1)",
        "select load_extension('x')",
        "select writefile('x', 'y')",
        "select fts3_tokenizer('x')",
        "vacuum into 'x'",
        "reindex",
        "create virtual table t using fts5(x)",
        "create trigger t after insert on a begin delete from b; end",
    ],
    "duckdb": [
        "copy a to 'x.csv'",
        "select * from read_csv('x.csv')",
        "select * from 'x.parquet'",
        'select * from "/etc/passwd"',
        "select * from read_text('/etc/passwd')",
        "select * from glob('*')",
        "install httpfs",
        "load httpfs",
        "attach 'x' as y",
        "export database 'x'",
        "set threads = 1",
        "checkpoint",
        "call pragma_version()",
    ],
}


def cases(found: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(dialect, sql) for dialect, each in found.items() for sql in each]


def verdict(dialect: str, sql: str, **config: Any) -> Approval:
    statements = read_statements(sql, dialect)
    return judge(statements, SqlConfig.model_validate({**NOWHERE, **config}), "main").approval


@pytest.mark.parametrize(("dialect", "sql"), cases(READING))
def test_a_query_is_reading(dialect: str, sql: str) -> None:
    assert verdict(dialect, sql) is Approval.PRE_APPROVED


@pytest.mark.parametrize(("dialect", "sql"), cases(NOT_READING))
def test_everything_else_is_not_reading(dialect: str, sql: str) -> None:
    """Also if the worker allows all that it can."""
    assert verdict(dialect, sql) is Approval.ASK
    statements = read_statements(sql, dialect)
    if not all(each.kind in ("write", "ddl") for each in statements):
        rules = [{"approval": "preApproved"}]
        loosest = {"write": "preApproved", "ddl": "preApproved", "rules": rules}
        assert verdict(dialect, sql, **loosest) is Approval.ASK


@pytest.mark.parametrize(
    "sql",
    ["select (" * 3000, "select 1" + " + 1" * 60_000, "(" * 50_000, "select " + "x, " * 4_000],
)
def test_a_text_of_any_size_gets_a_verdict(sql: str) -> None:
    assert verdict("postgres", sql) in (Approval.ASK, Approval.PRE_APPROVED)


def test_tables_of_all_parts_are_known() -> None:
    [statement] = read_statements(
        "with d as (delete from audit.log using users where true returning *) "
        "insert into archive select * from d join (select * from orders) o on true",
        "postgres",
    )
    assert statement.kind == "write"
    assert set(statement.writes) == {"archive", "audit.log"}
    assert {"users", "orders"} <= set(statement.reads)


RULES = [
    {"statement": "delete", "table": "audit_*", "approval": "blocked"},
    {"statement": "insert", "table": "drafts", "approval": "preApproved"},
    {"table": "salaries", "approval": "blocked"},
    {"statement": "drop", "approval": "blocked"},
    {"connection": "prod", "statement": "update", "approval": "blocked"},
]


@pytest.mark.parametrize(
    ("sql", "approval"),
    [
        ("delete from audit_2026", "blocked"),
        ("delete from Public.AUDIT_2026", "blocked"),
        ('delete from "audit_2026"', "blocked"),
        ("select 1; delete from audit_2026", "blocked"),
        ("update audit_2026 set x = 1", "ask"),
        ("insert into drafts values (1)", "preApproved"),
        ("insert into drafts select * from a", "preApproved"),
        ("insert into drafts select my_function()", "ask"),
        ("insert into drafts select * from salaries", "blocked"),
        ("insert into drafts values (1); insert into other values (1)", "ask"),
        ("with d as (delete from other returning *) insert into drafts select * from d", "ask"),
        ("select * from salaries", "blocked"),
        ("with salaries as (select * from salaries) select * from salaries", "blocked"),
        ("select * from a where x in (select x from hr.salaries)", "blocked"),
        ("drop table a", "blocked"),
    ],
)
def test_rules_go_by_statement_and_table(sql: str, approval: str) -> None:
    assert verdict("postgres", sql, rules=RULES).value == approval


def test_a_rule_for_a_connection_is_for_no_other() -> None:
    [statement] = [read_statements("update a set x = 1", "postgres")]
    config = SqlConfig.model_validate({**NOWHERE, "rules": RULES})
    assert judge(statement, config, "prod").approval is Approval.BLOCKED
    assert judge(statement, config, "test").approval is Approval.ASK


def test_a_verdict_names_statement_rule_and_reason() -> None:
    statements = read_statements("select 1; delete from audit_1", "postgres")
    found = judge(statements, SqlConfig.model_validate({**NOWHERE, "rules": RULES}), "main")
    assert [(part.text, part.approval, part.rule) for part in found.parts] == [
        ("select 1", "ask", None),
        ("delete from audit_1", "blocked", "toolsets.sql.rules[0]"),
    ]
    assert (found.reason, found.rule) == ("it changes rows of audit_1", "toolsets.sql.rules[0]")


def test_functions_of_the_worker_are_known() -> None:
    assert read_statements("select my_function(1)", "postgres", ["MY_FUNCTION"])[0].doubts == ()


STATEMENTS = [
    line
    for line in (Path(__file__).parent / "statements.sql").read_text().splitlines()
    if not line.startswith("-- 300")
]
TABLES = ["x", "y", "z", "t", "test", "foo", "bar", "a", "b", "c", "tbl", "table1", "persons", "u"]
COLUMNS = "a int, b int, c int, d int, x int, y int, z int, id int, name text, value int"


def is_reading(sql: str, dialect: str) -> bool:
    return verdict(dialect, sql) is Approval.PRE_APPROVED


@pytest.mark.long
def test_statements_that_read_change_nothing_in_sqlite() -> None:
    judged = 0
    for sql in STATEMENTS:
        if not is_reading(sql, "sqlite"):
            continue
        db = sqlite3.connect(":memory:", isolation_level=None)
        for name in TABLES:
            db.execute(f"create table {name} ({COLUMNS})")
        before = list(db.iterdump())
        try:
            db.execute(sql).fetchmany(100)
            judged += 1
        except sqlite3.Error:
            continue
        assert (list(db.iterdump()), db.in_transaction) == (before, False), sql
    assert len(STATEMENTS) == 300
    assert judged > 150


@pytest.mark.long
def test_statements_that_read_change_nothing_in_postgres(postgres_shop: Any) -> None:
    """A transaction that changed something has a number."""
    import psycopg

    judged = 0
    with psycopg.connect(postgres_shop.dsn) as db:
        for name in TABLES:
            db.execute(f"create table {name} ({COLUMNS})")
        db.commit()
        for sql in STATEMENTS:
            if not is_reading(sql, "postgres"):
                continue
            db.execute("set local statement_timeout = 5000")
            try:
                db.execute(sql.replace("%", "%%"))
                judged += 1
            except psycopg.Error:
                db.rollback()
                continue
            found = db.execute("select pg_current_xact_id_if_assigned()").fetchone()
            assert found == (None,), sql
            db.rollback()
    assert judged > 50


@pytest.mark.long
def test_statements_that_read_change_nothing_in_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    db = duckdb.connect(":memory:")
    for name in TABLES:
        db.execute(f"create table {name} ({COLUMNS})")
    tables = "select table_name, sql, estimated_size from duckdb_tables() order by all"
    before = db.execute(tables).fetchall()
    judged = 0
    for sql in STATEMENTS:
        if not is_reading(sql, "duckdb"):
            continue
        try:
            db.execute(sql).fetchmany(100)
            judged += 1
        except duckdb.Error:
            continue
        assert db.execute(tables).fetchall() == before, sql
    assert judged > 50
