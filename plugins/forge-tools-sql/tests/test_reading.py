"""Queries read and nothing else, whatever the parser believes; hidden columns and addresses stay hidden."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from forge_tools_sql.addresses import has_literal_password, open_database

from forge_cli import ForgeError, ToolError
from forge_cli.testing import call, calls

WRITES = [
    "delete from items",
    "with d as (delete from items returning *) select * from d",
    "select 1; delete from items",
    "select 1; commit; delete from items; select 2",
    "commit; delete from items",
    "insert into items values (9, 1, 'x') returning *",
    "create table other (x int)",
    "create temp table other as select * from items",
    "drop table items",
    "truncate items",
    "select * into other from items",
    "begin; delete from items; commit",
    "pragma user_version = 7",
    "pragma writable_schema = 1",
    "attach 'other.db' as other",
    "vacuum into 'copy.db'",
    "copy items to 'copy.csv'",
    "copy (select 1) to program 'touch copy.csv'",
    "set default_transaction_read_only = off",
    "select set_config('transaction_read_only', 'off', false); delete from items",
    "do $$ begin delete from items; end $$",
    "explain analyze delete from items",
    "export database 'copy'",
    "select load_extension('x')",
]


@pytest.mark.few(20)
@pytest.mark.parametrize("sql", WRITES)
def test_the_database_refuses_what_the_parser_would_miss(shop: Any, sql: str) -> None:
    """Straight to the database, as if the statement had been judged as reading."""
    before = sorted(path.name for path in shop.project.folder.iterdir())
    database = open_database(shop.dsn, shop.project.folder, 10, 100)
    with pytest.raises(ToolError):
        database.read(sql, 10)
    assert shop.ask("select count(*) from items") == [(3,)]
    # SQLite makes files beside the database while it writes, and removes them.
    assert sorted(path.name for path in shop.project.folder.iterdir()) == before


def test_a_query_is_a_table_with_the_first_rows(shop: Any) -> None:
    shop.configure("rows: 2")
    seen = shop.project.run(
        calls(call("query", sql="select id, status from orders order by id")), "done", timeout=60
    )
    value = seen.outcomes[0].value
    assert value.wire() == {
        "kind": "table",
        "columns": ["id", "status"],
        "rows": [[1, "open"], [2, "open"]],
        "more": True,
        "summary": "the first 2 rows; use LIMIT and OFFSET, or count(*), for the others",
    }
    assert seen.asked == []


def test_tables_columns_and_plans_are_read_without_a_question(shop: Any) -> None:
    turn = calls(
        call("tables"),
        call("describe", table="users"),
        call("explain", sql="select * from orders where id = 1"),
        call("describe", table="nosuch"),
    )
    seen = shop.project.run(turn, "done", timeout=60)
    by_call = {outcome.tool_call_id: outcome for outcome in seen.outcomes}
    tables, columns, plan, missing = (by_call[name] for name in sorted(by_call))
    assert {row[0] for row in tables.value.rows} >= {"orders", "items", "users", "logins"}
    assert [row[0] for row in columns.value.rows] == ["id", "name", "password"]
    assert [row[4] for row in columns.value.rows] == ["primary", "", ""]
    assert plan.value.rows
    assert missing.error == "there is no table nosuch; `tables` lists them"


def test_explaining_a_change_does_not_make_it(shop: Any) -> None:
    seen = shop.project.run(
        calls(call("explain", sql="delete from items"), call("explain", sql="select 1; select 2")),
        "done",
        timeout=60,
    )
    assert "explain takes one statement" in [outcome.error for outcome in seen.outcomes]
    assert shop.ask("select count(*) from items") == [(3,)]


def test_a_query_that_changes_something_is_sent_to_execute(shop: Any) -> None:
    seen = shop.project.run(
        calls(call("query", sql="delete from items"), call("query", sql="select 1; select 2")),
        "done",
        timeout=60,
    )
    assert sorted(str(outcome.error) for outcome in seen.outcomes) == [
        "query only reads, and this is a delete; use execute",
        "query takes one statement; use execute for several",
    ]


SPIES = [
    "select * from users",
    "select u from users u",
    "select users from users",
    "select to_json(users) from users",
    "select row_to_json(u) from users u",
    "select password from users",
    "select name from users where password = 's3cret'",
    "select * from (select * from users) as other",
    "with users as (select * from users) select * from users",
    "select * from orders o join users u on o.id = u.id",
    "select * from orders, users",
    "select * from logins",
    "select (select max(password) from users)",
    "select name from users order by password",
    "select name from users union select password from users",
    'select * from "users"',
    "table users",
    "values ((select password from users limit 1))",
    "explain select * from users",
    "select query_to_xml('select * from users', true, true, '')",
    "select * from sqlite_stat4",
    "select most_common_vals::text from pg_stats",
    "select histogram_bounds::text from pg_catalog.pg_stats where tablename = 'users'",
]


@pytest.mark.few(20)
@pytest.mark.parametrize("sql", SPIES)
def test_a_hidden_column_is_never_shown(shop: Any, sql: str) -> None:
    shop.configure("hide: [users.password]")
    if shop.dialect == "postgres":
        shop.ask("analyze users")
    seen = shop.project.run(calls(call("query", sql=sql)), "done", answers=[True], timeout=60)
    said = json.dumps(seen.lines)
    assert "h1dden" not in said
    assert "s3cret" not in said.replace(json.dumps(sql)[1:-1], "").replace("s3cret'", "")


def test_other_columns_of_such_a_table_are_shown(shop: Any) -> None:
    shop.configure("hide: [users.password]")
    seen = shop.project.run(
        calls(call("query", sql="select u.name, o.status from users u join orders o using (id)")),
        "done",
        timeout=60,
    )
    assert sorted(seen.outcomes[0].value.rows) == [("ada", "open"), ("grace", "open")]


MOVES = [
    "update users set name = password",
    "insert into log (what) select password from users",
    "delete from users where password like 's%'",
    "update users set name = 'x' returning *",
    "update orders set status = (select password from users limit 1)",
    "create table copy as select * from users",
    "create view copy as select * from users",
    "insert into log (what) select name || password from logins",
    "merge into users using orders on users.id = orders.id when matched then update set name = users.password",
]


@pytest.mark.few(9)
@pytest.mark.parametrize("sql", MOVES)
def test_a_hidden_column_is_not_moved_elsewhere(shop: Any, sql: str) -> None:
    shop.configure("hide: [users.password]")
    seen = shop.try_out(sql)
    assert seen.asked == []
    assert seen.statuses == ["error"]
    assert "h1dden" not in json.dumps(seen.lines)


def test_a_hidden_column_can_be_set_and_is_masked_in_the_question(shop: Any) -> None:
    shop.configure("hide: [users.password]")
    seen = shop.try_out("update users set password = 'n3w' where id = 2", True)
    assert "password=(hidden)" in seen.asked[0].preview.content
    assert "h1dden" not in json.dumps(seen.lines)
    assert shop.ask("select password from users where id = 2") == [("n3w",)]


def test_an_address_is_shown_to_nobody(sqlite_shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sqlite:" + str(sqlite_shop.project.folder / "very-secret-name.db")
    monkeypatch.setenv("SHOP_URL", secret)
    sqlite_shop.dsn = "${SHOP_URL}"
    sqlite_shop.configure()
    seen = sqlite_shop.project.run(
        calls(
            call("query", sql="select 1"),
            call("tables"),
            call("query", sql="select 1", connection="x"),
        ),
        "done",
        timeout=60,
    )
    assert seen.statuses == ["error"] * 3
    assert "very-secret-name" not in json.dumps(seen.lines)
    said = [str(outcome.error) for outcome in seen.outcomes]
    assert "name one of the databases as connection: main" in said


@pytest.mark.parametrize(
    ("dsn", "problem"),
    [
        ("${NOT_SET_HERE}", "the variable NOT_SET_HERE is not set"),
        ("postgresql://me:pass@host/db", "the address contains a password"),
        ("host=x password=y", "the address contains a password"),
        ("mongodb://x", "not an address"),
        ("shop.db", "not an address"),
        ("sqlite:", "not an address"),
    ],
)
def test_a_wrong_address_is_an_error_of_the_worker(
    sqlite_shop: Any, dsn: str, problem: str
) -> None:
    sqlite_shop.dsn = dsn
    sqlite_shop.configure()
    with pytest.raises(ForgeError) as caught, sqlite_shop.project.open():
        pass
    assert f"toolsets.sql.connections.main: {problem}" in str(caught.value)
    assert "worker.yaml:5" in str(caught.value)
    assert "pass@" not in f"{caught.value}{caught.value.hint}"


def test_a_wrong_address_is_one_sentence_on_the_command_line(sqlite_shop: Any) -> None:
    sqlite_shop.dsn = "${NOT_SET_HERE}"
    sqlite_shop.configure()
    done = sqlite_shop.project.forge("tools", "call", "tables", "--worker", "worker.yaml")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 2)
    assert "the variable NOT_SET_HERE is not set" in done.stderr


def test_a_password_in_a_variable_is_none_in_the_file() -> None:
    assert not has_literal_password("postgresql://me:${PASSWORD}@host/db")
    assert not has_literal_password("${DATABASE_URL}")


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("hide: [password]", "is not TABLE.COLUMN"),
        ("rows: 0", "rows"),
        ("rules: [{statement: frobnicate, approval: ask}]", "statement"),
        ("rulez: []", "rules"),
    ],
)
def test_a_wrong_setting_is_an_error_of_the_worker(
    sqlite_shop: Any, more: str, problem: str
) -> None:
    sqlite_shop.configure(more)
    with pytest.raises(ForgeError, match=problem), sqlite_shop.project.open():
        pass


def test_without_a_connection_the_worker_is_refused(sqlite_shop: Any) -> None:
    sqlite_shop.project.write("worker.yaml", "name: w\ntoolsets: {sql: {}}\n")
    with pytest.raises(ForgeError, match="connections"), sqlite_shop.project.open():
        pass


def test_a_statement_that_takes_too_long_ends(shop: Any) -> None:
    shop.configure("timeout: 0.5")
    endless = (
        "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n"
    )
    seen = shop.project.run(calls(call("query", sql=endless)), "done", timeout=60)
    assert seen.statuses == ["error"]
    said = seen.outcomes[0].error or ""
    assert "took more than 0.5 s" in said or "statement timeout" in said


def test_several_databases_are_told_apart(sqlite_shop: Any, tmp_path: Path) -> None:
    with sqlite3.connect(sqlite_shop.project.folder / "other.db") as db:
        db.execute("create table here (x)")
    sqlite_shop.project.write(
        "worker.yaml",
        "name: w\ntoolsets:\n  sql:\n    connections: {a: {dsn: 'sqlite:shop.db'}, b: {dsn: 'sqlite:other.db'}}\n",
    )
    turn = calls(call("tables", connection="b"), call("tables"))
    seen = sqlite_shop.project.run(turn, "done", timeout=60)
    assert {outcome.error for outcome in seen.outcomes} == {
        None,
        "name one of the databases as connection: a, b",
    }
    assert [outcome.value.rows for outcome in seen.outcomes if not outcome.error] == [
        (("here", "table"),)
    ]
