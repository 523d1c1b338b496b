"""Grants as values: rules as text, possible offers for a call, and their encoding."""

from forge_cli.core.approval import GrantOffer, GrantRule, flow
from forge_cli.core.wire import read


def rule(pattern: str, **more: object) -> GrantRule:
    return GrantRule(
        ("toolsets", "shell", "rules", "-"),
        {"pattern": pattern},
        f"commands like {pattern}",
        **more,
    )


ADD, COMMIT, GIT, LS = map(rule, ("git add", "git commit", "git", "ls"))


def test_text_of_a_rule_is_what_would_be_written() -> None:
    assert str(ADD) == 'toolsets.shell.rules: [{pattern: "git add"}]'
    zone = GrantRule(
        ("sandbox", "zones", "code", "approval", "write"), "preApproved", "edits in zone code"
    )
    assert str(zone) == "sandbox.zones.code.approval.write: preApproved"
    assert str(GrantRule((), 1, "from a log that somebody has changed")) == ": 1"
    assert flow({"a b": ["no", "x", None, 1.5, "#"]}) == '{"a b": ["no", x, null, 1.5, "#"]}'


def test_key_of_a_grant_is_not_on_the_wire() -> None:
    kept = rule("ls", key="secret", user_at=("policy", "shell", "rules", "-"))
    offer = GrantOffer("these", (kept,), covers=3, written="worker.yaml")
    sent = offer.wire()
    assert "secret" not in str(sent)
    again = read(GrantOffer, sent)
    assert again == offer
    assert (again.covers, again.written, again.rules[0].user_at, again.rules[0].key) == (
        *(3, "worker.yaml", ("policy", "shell", "rules", "-")),
        "",
    )
