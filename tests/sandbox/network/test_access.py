"""Network access: rules, questions, and checks of resolved addresses.

Covers forge_cli.sandbox.network.access.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import pytest

from forge_cli.core.approval import ApprovalDecision
from forge_cli.sandbox.network.access import (
    INTERNET,
    MAX_QUESTIONS,
    NEVER_ASKS,
    NetworkCheck,
    NetworkGate,
    Refused,
)
from forge_cli.sandbox.network.rules import NetworkRules
from tests.support.rows import each_row

from .away import PUBLIC, Away, Person

pytestmark = pytest.mark.anyio

YES = ApprovalDecision(True)


@contextmanager
def clock() -> Iterator[None]:
    yield


def check(gate: NetworkGate, away: Away | None = None, *rules: str) -> NetworkCheck:
    return NetworkCheck(
        "curl x", NetworkRules.read(rules or ["*.example.org"]), gate, away or Away()
    )


async def why_not(found: NetworkCheck, host: str, port: int = 80) -> str:
    with pytest.raises(Refused) as caught:
        await found.admit(host, port, clock)
    return f"{caught.value} by {caught.value.by}"


async def test_covered_name_is_resolved_and_open() -> None:
    person, away = Person(), Away()
    found = check(person, away)
    assert await found.admit("API.example.org.", 443, clock) == [PUBLIC]
    assert (away.looked_up, person.asked) == (["api.example.org"], [])
    assert person.heard == ["api.example.org:443 yes by rule"]


@pytest.mark.parametrize(
    ("host", "port"), [("other.example.com", 443), ("api.example.org", 22), ("8.8.8.8", 80)]
)
async def test_uncovered_name_asks_before_it_is_resolved(host: str, port: int) -> None:
    person, away = Person(), Away()
    assert (
        await why_not(check(person, away), host, port) == "no rule covers it; not that one by user"
    )
    assert [(wanted.host, wanted.port, wanted.command) for wanted in person.asked] == [
        (host, port, "curl x")
    ]
    assert away.looked_up == []
    assert person.heard == [f"{host}:{port} no by user: no rule covers it; not that one"]


async def test_yes_opens_it() -> None:
    person, away = Person(YES), Away()
    assert await check(person, away).admit("other.example.com", 443, clock) == [PUBLIC]
    assert person.heard == ["other.example.com:443 yes by user"]


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("rebound.example.org", "10.1.2.3 is an address of a private network"),
        ("here.example.org", "8.8.4.4 is an address of this machine itself"),
        ("localhost", "127.0.0.1 is an address of this machine itself"),
    ],
)
async def test_name_that_leads_inwards_is_refused_whoever_allows_it(host: str, reason: str) -> None:
    person = Person(YES)
    assert await why_not(check(person), host) == f"{reason} by rule"
    assert person.heard == [f"{host}:80 no by rule: {reason}"]


async def test_public_addresses_are_selected() -> None:
    assert await check(Person()).admit("half.example.org", 80, clock) == [PUBLIC]


@each_row(
    "host",
    [
        *(
            "10.0.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "[::1]",
            "[::ffff:10.0.0.1]",
            "[fd00:ec2::254]",
            "0.0.0.0",
        ),
        *("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "a" * 300, "a\x1b[2Jb", "a\0b"),
    ],
)
async def test_addresses_inwards_and_what_is_no_host_are_refused_with_nobody_asked(
    host: str,
) -> None:
    person, away = Person(YES), Away()
    found = check(person, away)
    assert (await why_not(found, host)).endswith(" by rule")
    assert (person.asked, away.looked_up) == ([], [])
    assert len(person.heard) == len(found.refused) == 1
    assert person.heard[0].isprintable()
    assert len(person.heard[0]) < 800


async def test_name_without_an_address_was_allowed_and_leads_nowhere() -> None:
    person = Person()
    assert await check(person).admit("missing.example.org", 80, clock) == []
    assert person.heard == ["missing.example.org:80 yes by rule"]


async def test_answer_holds_for_the_command_and_many_questions_at_once_are_one() -> None:
    for answer in (YES, ApprovalDecision(False)):
        person = Person(answer)
        found = check(person)

        async def connect(found: NetworkCheck = found) -> None:
            try:
                await found.admit("other.example.com", 443, clock)
            except Refused:
                return

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(connect)
        assert len(person.asked) == 1
        assert len(person.heard) == 20


async def test_command_asks_for_so_many_names_and_no_more() -> None:
    person = Person()
    found = check(person)
    for number in range(MAX_QUESTIONS + 5):
        await why_not(found, f"n{number}.example.com")
    assert len(person.asked) == MAX_QUESTIONS
    assert person.heard[-1].endswith(
        f"no rule covers it, and the command asked for {MAX_QUESTIONS} others"
    )
    assert len(found.refused) == 20


async def test_clock_stands_still_while_somebody_is_asked() -> None:
    stopped = []

    @contextmanager
    def stop() -> Iterator[None]:
        stopped.append("stop")
        yield
        stopped.append("go")

    with pytest.raises(Refused):
        await check(Person()).admit("other.example.com", 80, stop)
    await check(Person()).admit("api.example.org", 80, stop)
    assert stopped == ["stop", "go"]


async def test_network_without_a_gate_asks_nothing() -> None:
    sentence = "no rule covers it; forge could not ask (not interactive) by headless"
    assert await why_not(check(NEVER_ASKS), "other.example.com") == sentence


async def test_network_of_this_machine_knows_itself() -> None:
    with anyio.fail_after(60):
        assert set(await INTERNET.resolve("localhost")) <= {"127.0.0.1", "::1"}
    assert INTERNET.is_here("127.0.0.1")
    assert not INTERNET.is_here(PUBLIC)
