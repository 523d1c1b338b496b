"""Every case of tests/cases/shell_rules.jsonl."""

import json
from pathlib import Path

from forge_cli.bashrules.decision import Decision
from forge_cli.bashrules.judge import judge_line

from .conftest import rule_of

CASES = Path(__file__).parents[1] / "cases" / "shell_rules.jsonl"


def test_every_case_has_its_verdict() -> None:
    wrong = []
    for case in map(json.loads, CASES.read_text("utf-8").splitlines()):
        rules = [rule_of(rule) for rule in case["rules"]]
        verdict = judge_line(
            case["command"], rules, Decision(case["default"]), writable=case.get("writable", ())
        )
        if verdict.decision.value != case["expect"] or not verdict.reason:
            wrong.append((case["id"], verdict.decision.value, verdict.reason, case["why"]))
    assert wrong == []
