"""Every case of tests/cases/shell_rules.jsonl."""

import json
from pathlib import Path

from forge_cli.bashrules.judge import judge_line
from forge_cli.bashrules.rules import ShellRule
from forge_cli.core.approval import Approval

CASES = Path(__file__).parents[1] / "cases" / "shell_rules.jsonl"


def test_every_case_is_judged_as_it_says() -> None:
    wrong = []
    for case in map(json.loads, CASES.read_text("utf-8").splitlines()):
        rules = [ShellRule.model_validate(rule) for rule in case["rules"]]
        verdict = judge_line(case["command"], rules, Approval(case["default"]), writable=case.get("writable", ()))
        if verdict.approval.value != case["expect"] or not verdict.reason:
            wrong.append((case["id"], verdict.approval.value, verdict.reason, case["why"]))
    assert wrong == []
