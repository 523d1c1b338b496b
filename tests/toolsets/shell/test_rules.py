"""A rule of a worker, as it is read from its file.

Covers forge_cli.toolsets.shell.rules, forge_cli.toolsets.shell.line_text.
"""

import pytest

from forge_cli.core.approval import Approval
from forge_cli.core.errors import WorkerError
from forge_cli.schema.config import parse_config
from forge_cli.testing import Project
from forge_cli.toolsets.shell.rules import ShellRule


def test_rule_is_read_in_either_spelling() -> None:
    data = {"pattern": "git push", "approval": "blocked", "notMatch": ["git pull"]}
    rule = parse_config(ShellRule, data)
    assert (rule.pattern, rule.approval, rule.match, rule.not_match) == (
        "git push",
        Approval.BLOCKED,
        [],
        ["git pull"],
    )
    with pytest.raises(WorkerError, match="unknown key 'aproval'; did you mean 'approval'"):
        parse_config(ShellRule, {"pattern": "x", "aproval": "ask"})


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("{use: readings}", "toolsets.shell.rules[0].use: must"),
        ("{use: reading, approval: ask}", "toolsets.shell.rules[0]: 'use' takes no other key"),
        ("{use: reading, pattern: ls}", "toolsets.shell.rules[0]: 'use' takes no other key"),
        (
            "{pattern: ls, approval: ask, forms: checked}",
            "toolsets.shell.rules[0]: 'forms' is for rule sets",
        ),
        ("{pattern: ls}", "toolsets.shell.rules[0]: 'approval' is required"),
        ("{approval: ask}", "toolsets.shell.rules[0]: 'pattern' is required"),
    ],
)
def test_rule_is_either_a_pattern_or_a_set(project: Project, rule: str, says: str) -> None:
    project.write("worker.yaml", f"name: w\ntoolsets:\n  shell:\n    rules: [{rule}]\n")
    done = project.forge("worker", "check", "worker.yaml")
    assert done.returncode == 3
    assert f"worker.yaml:4:1{'9' if 'readings' in rule else '3'}: {says}" in done.stderr, (
        done.stderr
    )
