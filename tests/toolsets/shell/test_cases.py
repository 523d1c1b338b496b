"""Every case of tests/cases/shell_rules.jsonl."""

import json
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.approval import Approval
from forge_cli.toolsets.shell.rules import ShellRule, judge_line

Case = dict[str, Any]

CASES: list[Case] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases" / "shell_rules.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_case(case: Case) -> None:
    rules = [ShellRule.model_validate(rule) for rule in case["rules"]]
    verdict = judge_line(case["command"], rules, Approval(case["default"]), writable=case.get("writable", ()))
    assert (verdict.approval.value, case["why"]) == (case["expect"], case["why"])
    assert verdict.reason
