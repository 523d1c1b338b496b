"""Connections of commands at the gate: asked like calls, answered like calls, and every one of them an event."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from forge_cli import ApprovalDecision
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    Event,
    NetworkAccess,
    ToolResult,
)
from forge_cli.core.results import for_model
from forge_cli.engine.gate.network import NetworkConsent
from forge_cli.events import GrantOffer, GrantRule, OnAsk
from forge_cli.record.pending import requests_of
from forge_cli.record.resume import read_past
from forge_cli.sandbox.network.access import Destination
from forge_cli.testing import Project, Seen, call, calls
from tests.engine.conftest import OpenGate

pytestmark = pytest.mark.needs("bwrap")

GET = """\
import sys, urllib.error, urllib.request
for url in sys.argv[1:]:
    try:
        urllib.request.urlopen(url, timeout=60)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
WORKER = """\
name: fetcher
sandbox: {network: [api.example.org]}
toolsets:
  shell: {rules: [{pattern: python3 get.py, approval: preApproved}]}
provenance: {after_untrusted: {other: "off"}}
"""
HOST = "unlisted.invalid"
LINE = f"python3 get.py http://{HOST}/"
WHY = "no rule of sandbox.network covers it"
COULD_NOT_ASK = "forge could not ask (not interactive)"


@pytest.fixture
def fetcher(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("get.py", GET)
    return project


def fetch(project: Project, *lines: str, **options: Any) -> Seen:
    return project.run(
        *(calls(call("shell", command=line)) for line in lines), "done", timeout=60, **options
    )


def accesses(seen: Seen) -> list[NetworkAccess]:
    return seen.of(NetworkAccess)


def test_connection_without_anybody_to_ask_is_denied_reported_and_counted(fetcher: Project) -> None:
    seen = fetch(fetcher, LINE)
    [request] = [event.request for event in seen.of(ApprovalRequired)]
    assert (request.tool_name, request.reason, request.risk) == ("network", WHY, "medium")
    assert (request.rule, str(request.where)) == (
        "sandbox.network",
        f"{fetcher.folder}/worker.yaml:2:11",
    )
    assert request.args == {"host": HOST, "port": 80, "command": LINE}
    assert request.description == f"fetcher wants to reach {HOST}:80"
    decided = seen.of(ApprovalDecided)[-1]
    assert (decided.request_id, decided.approved, decided.by) == (
        request.request_id,
        False,
        "headless",
    )
    assert accesses(seen) == [
        NetworkAccess(
            HOST, 80, False, "headless", "call_1_1", f"no rule covers it; {COULD_NOT_ASK}"
        ),
    ]
    assert for_model(seen.outcomes[0].value) == (
        f"exit code: 0\nconnections refused: {HOST}:80 (no rule covers it; {COULD_NOT_ASK})\n403\n"
    )
    assert [dict(denial) for denial in seen.result.denials] == [
        {
            "tool": "shell",
            "input": {"command": LINE},
            "reason": f"{HOST}:80 was not reached: {WHY}; {COULD_NOT_ASK}",
            "by": "headless",
        }
    ]
    assert (seen.result.status, seen.result.exit_code) == ("completed", 0)
    start = seen.types.index("approvalRequired")
    assert seen.types[start : start + 4] == [
        "approvalRequired",
        "approvalDecided",
        "networkAccess",
        "toolResult",
    ]


def test_on_ask_fail_stops_after_the_command(fetcher: Project) -> None:
    seen = fetch(fetcher, LINE, LINE, on_ask=OnAsk.FAIL)
    assert (seen.result.status, seen.result.exit_code) == ("denied", 4)
    assert seen.result.error == f"{HOST}:80 was not reached: {WHY}; {COULD_NOT_ASK}"
    assert len(seen.of(ToolResult)) == 1


def test_running_command_is_not_parked(fetcher: Project) -> None:
    seen = fetch(fetcher, LINE, on_ask=OnAsk.PARK)
    assert (seen.result.status, [each.by for each in accesses(seen)]) == ("completed", ["headless"])


def test_approve_all_opens_no_private_address(fetcher: Project) -> None:
    hosts = [
        "localhost",
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "2130706433",
    ]
    line = "python3 get.py " + " ".join(f"http://{host}/" for host in (HOST, *hosts))
    seen = fetch(fetcher, line, approval_mode="approve_all")
    assert seen.of(ApprovalRequired) == []
    first, *others = accesses(seen)
    assert first == NetworkAccess(HOST, 80, True, "mode", "call_1_1")
    assert [(each.allowed, each.by) for each in others] == [(False, "rule")] * len(hosts)
    assert others[0].reason == "127.0.0.1 is an address of this machine itself"
    assert seen.outcomes[0].value.text().count("403") == len(hosts)


def test_auto_deny_asks_nobody(fetcher: Project) -> None:
    seen = fetch(fetcher, LINE, approval_mode="auto_deny")
    assert (seen.of(ApprovalRequired), [each.by for each in accesses(seen)]) == ([], ["mode"])


def test_yes_covers_one_command(fetcher: Project) -> None:
    twice = f"python3 get.py http://{HOST}/ http://{HOST}/again"
    seen = fetch(fetcher, twice, LINE, answers=[True, False])
    assert [(each.allowed, each.by, each.tool_call_id) for each in accesses(seen)] == [
        (True, "user", "call_1_1"),
        (True, "user", "call_1_1"),
        (False, "user", "call_2_1"),
    ]
    assert [request.args["command"] for request in seen.asked] == [twice, LINE]


def test_yes_for_the_session_covers_the_host_and_port_for_every_command(
    fetcher: Project,
) -> None:
    other = f"python3 get.py http://{HOST}/other http://{HOST}:81/"
    seen = fetch(fetcher, LINE, other, answers=[ApprovalDecision(True, remember="session"), False])
    assert [(each.port, each.allowed, each.by) for each in accesses(seen)] == [
        (80, True, "user"),
        (80, True, "memory"),
        (81, False, "user"),
    ]


def test_connection_is_offered_as_a_rule(fetcher: Project) -> None:
    rule = GrantRule(("sandbox", "network", "-"), f"{HOST}:80", f"connections to {HOST}:80")
    yes = ApprovalDecision(True, remember="session", grant=GrantOffer.of([rule]))
    seen = fetch(fetcher, LINE, LINE, answers=[yes])
    assert seen.asked[0].offers == (GrantOffer.of([rule]),)
    assert [each.by for each in accesses(seen)] == ["user", "memory"]
    given = [event.grant for event in seen.of(ApprovalDecided) if event.grant]
    assert given == [GrantOffer.of([rule])]


def test_shell_session_has_a_proxy(fetcher: Project) -> None:
    seen = fetcher.run(
        calls(call("exec_command", command="bash", yield_time_ms=0)),
        calls(call("write_stdin", session_id=1, chars=f"{LINE}; exit\n", yield_time_ms=30_000)),
        "done",
        timeout=60,
        answers=[True, True, False],
    )
    assert [(each.allowed, each.tool_call_id) for each in accesses(seen)] == [(False, "call_1_1")]
    assert "403" in seen.outcomes[1].value.text()


def test_child_cannot_reach_more_than_its_parent(project: Project) -> None:
    project.write("get.py", GET)
    project.write(
        "worker.yaml",
        "name: boss\nsandbox: {network: ['*.example.org', 'a.invalid']}\n"
        "toolsets: {workers: {allowed: [helper.yaml], approval: {default: preApproved}}}\n",
    )
    project.write(
        "helper.yaml",
        "name: helper\ndescription: h\nmodel: script:script.yaml\nsandbox: {network: [a.invalid, b.invalid]}\n"
        "toolsets: {shell: {rules: [{pattern: python3 get.py, approval: preApproved}]}}\n",
    )
    project.write(
        "script.yaml",
        "turns:\n- calls: [{tool: shell, input: {command: python3 get.py http://a.invalid/ http://b.invalid/}}]\n"
        "- text: ok\n",
    )
    seen = project.run(calls(call("helper", input="go")), "done", timeout=60)
    assert [(each.host, each.allowed, each.by) for each in accesses(seen)] == [
        ("a.invalid", True, "rule"),
        ("b.invalid", False, "headless"),
    ]
    assert [event.request.description for event in seen.of(ApprovalRequired)] == [
        "boss > helper wants to reach b.invalid:80"
    ]
    assert [each.origin.worker for each in accesses(seen) if each.origin] == ["helper", "helper"]
    assert len(seen.result.denials) == 1


def test_host_list_without_a_mechanism_is_refused_at_load(fetcher: Project, tmp_path: Path) -> None:
    done = fetcher.forge("worker", "check", "worker.yaml", env={"PATH": str(tmp_path)})
    assert done.returncode == 3
    assert (
        "sandbox.network lists names, but this machine cannot keep commands from others"
        in done.stderr
    )


def test_question_of_a_killed_forge_cannot_be_answered_later(
    fetcher: Project,
) -> None:
    seen = fetch(fetcher, LINE)
    lines = seen.record[: seen.types.index("approvalRequired") + 1]
    past = read_past(lines)
    assert (past.pending, requests_of(lines)) == ({}, [])
    assert [call.id for call in past.cut_off] == ["call_1_1"]


WANTED = Destination("a.example", 443, "curl https://a.example")


@pytest.mark.anyio
async def test_interrupt_withdraws_the_question(gate: OpenGate) -> None:
    seen: list[Event] = []
    opened = gate()
    opened.bus.subscribe(seen.append, answers=True)
    consent = NetworkConsent(
        opened.guard.judge.worker, opened.guard.controller, opened.interrupt, None, []
    )
    answers: list[ApprovalDecision] = []

    async def ask() -> None:
        answers.append(await consent.ask(WANTED))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            opened.interrupt.interrupt()
    assert [answer.approved for answer in answers] == [False]
    assert [type(event) for event in seen] == [ApprovalRequired, ApprovalDecided]
