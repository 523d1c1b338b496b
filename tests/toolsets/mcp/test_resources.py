"""Rules for reading the resources of MCP servers: which one decides, and that no spelling of a URI gets around one.

Covers forge_cli.toolsets.mcp.resources.
"""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge_cli.core.approval import Approval, ApprovalDecision, ApprovalRequest
from forge_cli.testing import Project, Seen, call, calls
from forge_cli.toolsets.mcp.resources import ResourceRules, is_plain
from tests.support.interpreter import PYTHON

from .test_mcp import SERVER

RULES = {"note://public/*": "preApproved", "note://public/own/*": "ask", "*secret*": "blocked"}
RULES_OF_S = {"s": RULES}
BY_PATTERN = {"s": {pattern: Approval(said) for pattern, said in RULES.items()}}
NOWHERE = ResourceRules(BY_PATTERN, lambda *at: None, is_silent=False)


def worker(project: Project, rules: object, **approval: object) -> Path:
    server = {"command": PYTHON, "args": [SERVER, "resources"]}
    section = {"servers": {"s": server}, "resources": rules, "approval": approval}
    return project.write("worker.yaml", json.dumps({"name": "w", "toolsets": {"mcp": section}}))


def read(project: Project, *uris: str) -> Seen:
    return project.run(
        calls(*(call("read_mcp_resource", server="s", uri=uri) for uri in uris)), "done"
    )


@pytest.mark.parametrize(
    ("uri", "verdict"),
    [
        ("note://public/a", Approval.PRE_APPROVED),
        ("note://public/a/b?c=d#e", Approval.PRE_APPROVED),
        ("note://public/a%20b", Approval.PRE_APPROVED),
        ("note://public/own/a", Approval.ASK),
        ("note://private/a", None),
        ("note://publicity", None),
        ("note://public/secret", Approval.BLOCKED),
        ("note://SECRET/a", Approval.BLOCKED),
        ("note://%73ecret/a", Approval.BLOCKED),
        ("note://%2573ecret/a", Approval.BLOCKED),
        ("note://s/../secret", Approval.BLOCKED),
        ("note:secr\\..\\secret", Approval.BLOCKED),
        ("note://public/../private/a", Approval.ASK),
        ("note://public/..%2fprivate/a", Approval.ASK),
        ("note://public/%2e%2e/private/a", Approval.ASK),
        ("note://public/./a", Approval.ASK),
        ("note://public//a", Approval.ASK),
        ("note://public\\a", Approval.ASK),
        ("note://public/\u202ea", Approval.ASK),
        ("note://public/a\n", Approval.ASK),
        ("note://public/x/../own/a", Approval.ASK),
        ("NOTE://public/a", Approval.ASK),
        ("note://public/a%2", Approval.ASK),
        ("", Approval.ASK),
    ],
)
def test_strictest_matching_rule_decides(uri: str, verdict: Approval | None) -> None:
    said = NOWHERE.judge({"server": "s", "uri": uri})
    assert (said and said.approval) == verdict
    assert NOWHERE.judge({"server": "other", "uri": uri}) is None


ODD = st.text(st.sampled_from("ab./\\%2eEfF5:?#\u2025 "), max_size=12)


def encoded(text: str) -> str:
    return "".join(f"%{ord(letter):02x}" for letter in text)


@given(
    before=ODD,
    after=ODD,
    rounds=st.integers(0, 3),
    spell=st.sampled_from([encoded, quote, str.upper, str]),
)
def test_spelling_cannot_bypass_a_blocking_rule(
    before: str, after: str, rounds: int, spell: Callable[[str], str]
) -> None:
    uri = f"note://{before}{spell('secret')}{after}"
    for _ in range(rounds):
        uri = quote(uri, safe="/:")
    said = NOWHERE.judge({"server": "s", "uri": uri})
    assert said is not None
    assert said.approval is not Approval.PRE_APPROVED


@given(rest=ODD)
def test_allowed_address_stays_below_its_rule(rest: str) -> None:
    said = NOWHERE.judge({"server": "s", "uri": f"note://public/{rest}"})
    if said is not None and said.approval is Approval.PRE_APPROVED:
        assert is_plain(f"note://public/{rest}")
        assert not {"..", "\\", "%2e", "%2f", "%25"} & {
            rest[at : at + 3].lower() for at in range(len(rest))
        }
        assert ".." not in rest


def test_reading_a_resource_passes_the_gate(project: Project) -> None:
    worker(project, RULES_OF_S)
    seen = read(
        project, "note://public/a", "note://public/own/a", "note://private/a", "note://secret/a"
    )
    assert seen.statuses == ["success", "denied", "denied", "blocked"]
    assert seen.outcomes[0].value.text() == "what it says"


@pytest.mark.parametrize(
    ("approval", "statuses"),
    [
        ({"default": "preApproved"}, ["success", "success", "denied"]),
        ({"tools": {"read_mcp_resource": "preApproved"}}, ["success", "success", "denied"]),
        ({"tools": {"read_mcp_resource": "ask"}}, ["denied", "denied", "denied"]),
        ({"tools": {"read_mcp_resource": "blocked"}}, ["blocked", "blocked", "blocked"]),
    ],
)
def test_resource_without_a_rule_uses_the_approval_of_the_tool(
    project: Project, approval: dict[str, object], statuses: list[str]
) -> None:
    worker(project, RULES_OF_S, **approval)
    seen = read(project, "note://public/a", "note://private/a", "note://private/../a")
    assert seen.statuses == statuses


def test_dry_run_names_the_rule(project: Project) -> None:
    worker(project, RULES_OF_S)
    assert project.forge("mcp", "test", "worker.yaml").returncode == 0
    done = project.forge(
        "approve", "worker.yaml", "read_mcp_resource", "server=s", "uri=note://secret/a", "--json"
    )
    found = json.loads(done.stdout)
    assert (found["verdict"], found["rule"]) == ("blocked", "toolsets.mcp.resources.s.*secret*")
    assert found["reason"] == "note://secret/a of the MCP server s matches '*secret*'"
    assert found["where"].startswith("worker.yaml:1:")


def test_rules_for_an_unknown_server_are_an_error(project: Project) -> None:
    worker(project, {"t": {"*": "ask"}})
    done = project.forge("worker", "check", "worker.yaml")
    assert (done.returncode, "there is no server 't' here" in done.stderr) == (3, True), done.stderr


@pytest.mark.parametrize(
    ("uri", "offered"),
    [
        ("note://a/b/c", ["note://a/b/c", "note://a/b/*"]),
        ("file:///etc/hosts", ["file:///etc/hosts", "file:///etc/*"]),
        ("file:///hosts", ["file:///hosts"]),
        ("note://a", ["note://a"]),
        ("note:a", ["note:a"]),
        ("note://a/b?c=/d", ["note://a/b?c=/d", "note://a/*"]),
        ("note://a/*", []),
        ("note://a/../b", None),
    ],
)
def test_question_offers_rules_for_the_resource(uri: str, offered: list[str] | None) -> None:
    said = ResourceRules({}, lambda *at: None).judge({"server": "s", "uri": uri})
    if offered is None:
        assert said is None
        return
    assert said is not None
    (rules,) = said.grants
    assert [rule.at[-1] for rule in rules if not rule.implied] == [*offered, "read_mcp_resource"]


def test_granted_rule_covers_addresses_below_it(project: Project) -> None:
    worker(project, {})

    asked = list[str]()

    def allow_folder(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(str(request.args["uri"]))
        offers = [each for each in request.offers or () if "below note://a/" in each.text]
        return ApprovalDecision(
            bool(offers), remember="session", grant=offers[0] if offers else None
        )

    uris = ("note://a/b", "note://a/c/d", "note://a/../e")
    turns = [calls(call("read_mcp_resource", server="s", uri=uri)) for uri in uris]
    seen = project.run(*turns, "done", approval_callback=allow_folder)
    assert seen.statuses == ["success", "success", "denied"]
    assert asked == ["note://a/b", "note://a/../e"]


def test_read_without_rules_always_asks(project: Project) -> None:
    worker(project, {})
    assert project.forge("mcp", "test", "worker.yaml").returncode == 0
    listed = json.loads(project.forge("tools", "list", "worker.yaml", "--json").stdout)
    assert {each["name"]: each["approval"] for each in listed}["read_mcp_resource"] == "ask"
