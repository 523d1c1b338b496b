"""``forge approvals audit``: rules that no past call has met.

Covers forge_cli.cli.approvals.audit,
forge_cli.inspection.past_rules.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.logs import script

Cli = Callable[..., Any]

WORKER = """
name: clerk
model: script:script.yaml
toolsets:
  filesystem: {approval: {tools: {delete_file: blocked, read_file: ask}}}
  shell:
    rules:
      - {use: reading}
      - {pattern: touch, approval: ask}
      - {pattern: rm, approval: blocked}
      - {pattern: git push, approval: ask}
    default: ask
"""
CONFIG = """
policy:
  shell:
    rules:
      - {pattern: rm, approval: blocked}
      - {pattern: make, approval: preApproved}
"""


@pytest.fixture(autouse=True)
def clerk(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.home.mkdir()
    (project.home / "config.yaml").write_text(CONFIG)
    return project


def work(project: Project, cli: Cli, *commands: str) -> None:
    made = [call("shell", command=command) for command in commands]
    script(project, calls(*made, call("read_file", path="worker.yaml")), "Done.")
    assert cli("run", "worker.yaml", "go", "-p").code == 0


def test_audit_without_past_calls_compares_nothing(cli: Cli) -> None:
    done = cli("approvals", "audit")
    assert (done.code, done.err) == (0, "")
    assert done.out == "there are no past calls to compare rules with\n"
    assert json.loads(cli("approvals", "audit", "--json").out) == []


def test_rules_that_never_matched_are_listed_with_their_place(cli: Cli, clerk: Project) -> None:
    work(clerk, cli, "ls | head", "cd . && touch a")
    done = cli("approvals", "audit")
    worker, config = clerk.folder / "worker.yaml", clerk.home / "config.yaml"
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{config}:5:9: policy.shell.rules[0]: rm (blocked)",
        f"{config}:6:9: policy.shell.rules[1]: make (preApproved)",
        f"{worker}:5:48: toolsets.filesystem.approval.tools.delete_file: the worker says blocked (blocked)",
        f"{worker}:10:9: toolsets.shell.rules[2]: rm (blocked)",
        f"{worker}:11:9: toolsets.shell.rules[3]: git push (ask)",
        "5 of 8 rules never matched, in 3 past calls",
    ]


def test_rule_that_matches_a_call_is_not_listed(cli: Cli, clerk: Project) -> None:
    work(clerk, cli, "make all; touch a", "git push", "ls", "rm -r x")
    listed = [row["rule"] for row in json.loads(cli("approvals", "audit", "--json").out)]
    assert listed == ["toolsets.filesystem.approval.tools.delete_file"]


def test_user_rules_are_listed_although_no_past_worker_has_the_toolset(
    cli: Cli, clerk: Project
) -> None:
    clerk.write(
        "worker.yaml", "name: clerk\nmodel: script:script.yaml\ntoolsets: {filesystem: {}}\n"
    )
    work(clerk, cli)
    listed = [row["rule"] for row in json.loads(cli("approvals", "audit", "--json").out)]
    assert listed == ["policy.shell.rules[0]", "policy.shell.rules[1]"]
