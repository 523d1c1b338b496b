"""Changes are shown before they are made, as the database saw them, and a yes makes exactly these."""

from typing import Any

import pytest

from forge_cli import ApprovalDecision, ApprovalRequest
from forge_cli.testing import call, calls


def shown(seen) -> str:
    [request] = seen.asked
    return request.preview.content


def test_a_yes_makes_the_changes_that_the_question_showed(shop: Any) -> None:
    seen = shop.try_out("update orders set status = 'paid' where id = 1", True)
    lines = shown(seen).splitlines()
    assert lines[lines.index("- id=1 status='open'") + 1] == "+ id=1 status='paid'"
    assert seen.statuses == ["success"]
    assert shop.ask("select status from orders where id = 1") == [("paid",)]
    assert seen.types.count("trial") == 2


def test_a_no_leaves_everything_as_it_was(shop: Any) -> None:
    before = shop.ask("select * from orders order by id")
    seen = shop.try_out("delete from orders where id = 3", False)
    assert "- id=3 status='paid' total=5" in shown(seen)
    assert seen.statuses == ["denied"]
    assert shop.ask("select * from orders order by id") == before


@pytest.mark.parametrize("name", ["sqlite_shop", "postgres_shop"])
def test_cascades_and_triggers_are_shown(name: str, request: pytest.FixtureRequest) -> None:
    shop: Any = request.getfixturevalue(name)
    seen = shop.try_out(
        "delete from orders where id = 1; update orders set total = 21 where id = 2", True
    )
    text = shown(seen)
    assert "items: 2 rows deleted" in text
    assert "- id=1 order_id=1 name='apple'" in text
    assert "+ what='order 2' made=" in text
    assert "values that differ each time: log.made" in text
    assert seen.statuses == ["success"]
    assert shop.ask("select name from items") == [("plum",)]
    assert shop.ask("select what from log") == [("order 2",)]


def test_a_statement_without_effect_does_not_ask(shop: Any) -> None:
    seen = shop.try_out("delete from orders where id = 99")
    assert seen.asked == []
    assert seen.statuses == ["success"]


def test_new_rows_and_objects_are_shown(shop: Any) -> None:
    seen = shop.try_out(
        "create table notes2 (id int primary key, body text); insert into notes2 values (1, 'x')",
        True,
    )
    assert "+ table notes2: " in shown(seen)
    assert shop.ask("select * from notes2") == [(1, "x")]


def test_a_change_meanwhile_is_asked_about_again(shop: Any) -> None:
    asked: list[str] = []

    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.preview.content)
        if len(asked) == 1:
            shop.ask("update orders set total = 11 where id = 1")
        return ApprovalDecision(True)

    seen = shop.project.run(
        calls(call("execute", sql="delete from items; delete from orders where total > 10")),
        "done",
        approval_callback=answer,
        timeout=60,
    )
    assert seen.statuses == ["success"]
    assert len(asked) == 2
    assert "id=1 status" not in asked[0]
    assert "- id=1 status='open' total=11" in asked[1]
    assert shop.ask("select id from orders") == [(3,)]


def test_only_the_first_rows_are_shown_and_all_are_counted(shop: Any) -> None:
    values = ", ".join(f"({number}, 'open', 1)" for number in range(100, 150))
    seen = shop.try_out(f"insert into orders values {values}", False)
    text = shown(seen)
    assert "orders: 50 rows new" in text
    assert text.count("+ id=") == 20
    assert "and 30 more" in text
    assert seen.asked[0].recap == "orders: 50 rows new"


def test_more_changes_than_allowed_are_refused(shop: Any) -> None:
    shop.configure("changes: 2")
    seen = shop.try_out("delete from items")
    assert seen.asked == []
    assert "more than `changes: 2` allows" in (
        seen.outcomes[0].error or ""
    ) or "more rows than" in (seen.outcomes[0].error or "")
    assert len(shop.ask("select * from items")) == 3


def test_returned_rows_are_a_table(shop: Any) -> None:
    seen = shop.try_out("insert into orders values (7, 'new', 1) returning id, status", True)
    assert seen.outcomes[0].value.wire()["rows"] == [[7, "new"]]


def test_commit_and_rollback_belong_to_the_tool(shop: Any) -> None:
    for sql in ("commit; delete from orders", "delete from items; commit", "/* */ COMMIT"):
        seen = shop.try_out(sql, False)
        assert "not tried" in shown(seen)
        assert len(shop.ask("select * from items")) == 3


def test_a_failing_statement_undoes_the_others(shop: Any) -> None:
    seen = shop.try_out("delete from items; insert into orders values (1, 'x', 1)")
    assert seen.statuses == ["error"]
    assert len(shop.ask("select * from items")) == 3


def test_rules_meet_what_triggers_change(sqlite_shop: Any) -> None:
    sqlite_shop.configure("rules: [{table: log, approval: blocked}]")
    seen = sqlite_shop.try_out("update orders set total = 1 where id = 1")
    assert (seen.statuses, seen.asked) == (["blocked"], [])
    assert "it would also insert rows of log" in seen.outcomes[0].error
    assert sqlite_shop.ask("select total from orders where id = 1") == [(10,)]


@pytest.mark.long
def test_numbers_of_a_sequence_differ_each_time(postgres_shop: Any) -> None:
    seen = postgres_shop.try_out("insert into notes (body) values ('a'), ('b')", True)
    assert "values that differ each time: notes.id, notes.made" in shown(seen)
    assert seen.statuses == ["success"]
    assert postgres_shop.ask("select body from notes order by id") == [("a",), ("b",)]


@pytest.mark.long
def test_a_truncated_table_is_shown(postgres_shop: Any) -> None:
    seen = postgres_shop.try_out("truncate items", True)
    assert "items: 3 rows deleted" in shown(seen)
    assert postgres_shop.ask("select * from items") == []


def test_replaced_rows_of_sqlite_are_shown(sqlite_shop: Any) -> None:
    seen = sqlite_shop.try_out("insert or replace into users values (1, 'eve', 'x')", True)
    assert "- id=1 name='ada' password='s3cret'" in shown(seen) or "- id=1 name='ada'" in shown(
        seen
    )
    assert sqlite_shop.ask("select name from users where id = 1") == [("eve",)]


@pytest.mark.long
def test_deferred_triggers_are_shown(postgres_shop: Any) -> None:
    postgres_shop.ask(
        "create function late() returns trigger language plpgsql as "
        "$$ begin insert into log (what) values ('late'); return null; end $$"
    )
    postgres_shop.ask(
        "create constraint trigger late after delete on items deferrable initially deferred "
        "for each row execute function late()"
    )
    seen = postgres_shop.try_out("delete from items where id = 3", True)
    assert "+ what='late'" in shown(seen)
    assert postgres_shop.ask("select what from log") == [("late",)]


@pytest.mark.long
def test_what_cannot_be_compared_is_asked_about_without_a_trial(postgres_shop: Any) -> None:
    sql = "alter table items add column price int; update items set price = 1"
    seen = postgres_shop.try_out(sql, False)
    assert "not tried: another transaction holds a table" in shown(seen)
    assert len(postgres_shop.ask("select * from items")[0]) == 3
    assert postgres_shop.try_out(sql, True).statuses == ["success"]
    assert postgres_shop.ask("select distinct price from items") == [(1,)]


@pytest.mark.long
def test_a_name_in_a_truncate_stays_a_name(postgres_shop: Any) -> None:
    name = "x'); commit; delete from items; --"
    postgres_shop.ask(f'create table "{name}" (id int)')
    seen = postgres_shop.try_out(f'truncate "{name}"')
    assert seen.statuses == ["success"]
    assert len(postgres_shop.ask("select * from items")) == 3


def test_a_rule_meets_a_cascade_by_what_it_does(sqlite_shop: Any) -> None:
    sqlite_shop.configure("rules: [{statement: delete, table: items, approval: blocked}]")
    seen = sqlite_shop.try_out("delete from orders where id = 1")
    assert (seen.statuses, seen.asked) == (["blocked"], [])
    assert "it would also delete rows of items" in seen.outcomes[0].error
    assert len(sqlite_shop.ask("select * from items")) == 3


def test_a_statement_that_changes_other_rows_each_time_is_refused(sqlite_shop: Any) -> None:
    values = ", ".join(f"({number}, 'x', 1)" for number in range(100, 300))
    sqlite_shop.ask(f"insert into orders values {values}")
    sql = "delete from orders where id in (select id from orders order by random() limit 5)"
    seen = sqlite_shop.try_out(sql)
    assert (seen.statuses, seen.asked) == (["error"], [])
    assert "changes other rows each time" in seen.outcomes[0].error
