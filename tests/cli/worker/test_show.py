"""``forge worker show``: facts about a worker and its children, without starting anything.

Covers forge_cli.cli.worker.show, forge_cli.inspection.facts, forge_cli.inspection.facts_in_words,
forge_cli.ui.warnings.
"""

import json
import os
from pathlib import Path

import pytest

from forge_cli.testing import Project

BOSS = """
name: boss
description: Leads
instructions: You lead.
model: script:nowhere.yaml
limits: {max_turns: 7}
sandbox:
  zones:
    - {name: out, mode: rw, approval: {write: preApproved, delete: blocked}}
toolsets:
  plan:
  shell:
    rules:
      - {pattern: git status, approval: preApproved}
      - {pattern: git push, approval: blocked, reason: for people}
  workers:
    allowed: [helper, leaf]
    approval: {tools: {helper: preApproved, leaf: blocked}}
"""
HELPER = """
name: helper
description: Helps
sandbox: {zones: [{name: mine, path: out/deep, mode: rw, approval: {write: preApproved, delete: preApproved}}]}
toolsets:
  filesystem: {tools: [write_file, delete_file]}
  shell: {default: preApproved}
  workers: {allowed: [boss, leaf, ./lost.yaml]}
"""
LEAF = "name: leaf\ntoolsets: {memory: {}}\n"
LOST = "name: lost\nsandbox: {zones: [{name: far, path: ../far, mode: rw}]}\n"


@pytest.fixture
def workers(project: Project) -> Project:
    project.write("boss.yaml", BOSS)
    project.write("helper.yaml", HELPER)
    project.write("workers/leaf.yaml", LEAF)
    project.write("lost.yaml", LOST)
    return project


def test_show_prints_the_parts_of_a_worker(cli, workers, unconfined_rules: str) -> None:
    done = cli("worker", "show", "boss.yaml")
    assert (done.code, done.err) == (0, unconfined_rules)
    assert done.out.splitlines() == [
        f"boss ({workers.folder}/boss.yaml)",
        "  Leads",
        "  model:     script:nowhere.yaml",
        "  approval:  interactive",
        "  limits:    max_turns 7",
        "  isolation: auto, with the network",
        "zones:",
        f"  /out: write preApproved, delete blocked ({workers.folder}/out)",
        "toolsets:",
        "  plan: update_plan",
        "  shell: shell, exec_command, write_stdin",
        "  workers: helper, leaf",
        "for people:",
        "  shell: both",
    ]


def test_user_settings_apply(cli, workers) -> None:
    workers.home.mkdir(exist_ok=True)
    config = "model: script:mine.yaml\napproval: {mode: auto_deny}\nlimits: {max_turns: 3, max_cost: 2}\n"
    (workers.home / "config.yaml").write_text(config)
    found = json.loads(cli("worker", "show", "workers/leaf.yaml", "--json").out)
    assert (found["model"], found["approvalMode"], found["approvalMode"]) == (
        "script:mine.yaml",
        *["auto_deny"] * 2,
    )
    assert found["limits"] == {"maxTurns": 3, "maxCost": 2}
    assert (
        json.loads(cli("worker", "show", "boss.yaml", "--json").out)["model"]
        == "script:nowhere.yaml"
    )


def test_model_may_come_from_the_environment(cli, workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_MODEL", "script:env.yaml")
    assert "script:env.yaml" in cli("worker", "show", "workers/leaf.yaml").out


def test_policy_is_printed_with_its_places(cli, workers) -> None:
    found = json.loads(cli("worker", "show", "boss.yaml", "--policy", "--json").out)
    said = {each["tool"]: (each["verdict"], each["where"]) for each in found["tools"]}
    assert said == {
        "update_plan": ("preApproved", None),
        "shell": ("by rule", None),
        "exec_command": ("by rule", None),
        "write_stdin": ("by rule", None),
        "helper": ("preApproved", "boss.yaml:18:32"),
        "leaf": ("blocked", "boss.yaml:18:51"),
    }
    rules = [
        (rule["reason"], rule["verdict"], rule["rule"], rule["where"]) for rule in found["rules"]
    ]
    assert rules == [
        ("git status", "preApproved", "toolsets.shell.rules[0]", "boss.yaml:14:9"),
        ("git push (for people)", "blocked", "toolsets.shell.rules[1]", "boss.yaml:15:9"),
        ("what no rule covers", "ask", "toolsets.shell.default", None),
    ]
    assert [(zone["name"], zone["delete"], zone["where"]) for zone in found["zones"]] == [
        ("out", "blocked", "boss.yaml:9:7")
    ]


def test_policy_is_printed_for_people(cli, workers) -> None:
    out = cli("worker", "show", "boss.yaml", "--policy").out
    assert "leaf          workers  blocked      boss.yaml:18:51  the worker says blocked" in out
    assert "toolsets.shell.rules[1]  blocked      boss.yaml:15:9  git push (for people)" in out
    assert "/out  rw    preApproved  blocked  boss.yaml:9:7" in out


def test_user_rules_are_part_of_the_policy(cli, workers) -> None:
    workers.home.mkdir(exist_ok=True)
    rules = "policy: {shell: {rules: [{pattern: sudo, approval: blocked}]}}\n"
    (workers.home / "config.yaml").write_text(rules)
    found = json.loads(cli("worker", "show", "boss.yaml", "--policy", "--json").out)
    assert ("sudo", "policy.shell.rules[0]") in [
        (rule["reason"], rule["rule"]) for rule in found["rules"]
    ]


def test_tree_shows_the_permissions_of_each_worker(cli, workers, unconfined_rules: str) -> None:
    done = cli("worker", "show", "boss.yaml", "--tree", "--json")
    assert (done.code, done.err) == (0, unconfined_rules)
    boss = json.loads(done.out)
    helper, leaf = boss["workers"]
    assert boss["tools"]["helper"] == "preApproved"
    assert leaf["refused"] == "blocked: the worker says blocked"
    (mine,) = helper["zones"]
    assert (mine["path"], mine["write"], mine["delete"]) == (
        f"{workers.folder}/out/deep",
        "preApproved",
        "blocked",
    )
    assert helper["tools"] == {
        **dict.fromkeys(["write_file", "delete_file"], "by zone"),
        **dict.fromkeys(["shell", "exec_command", "write_stdin"], "by rule"),
        "boss": "ask",
        "leaf": "blocked",
        "lost": "ask",
    }
    assert [(rule["reason"], rule["verdict"]) for rule in helper["rules"]] == [
        ("what no rule covers", "preApproved"),
        ("git push (for people)", "blocked"),
    ]
    cycle, blocked, outside = helper["workers"]
    assert cycle["refused"] == "already running: a cycle"
    assert "the parent worker 'boss' blocks it" in blocked["refused"]
    assert "lost.yaml:2:" in outside["refused"]
    assert "is outside the zones of the parent worker" in outside["refused"]


def test_tree_is_printed_for_people(cli, workers) -> None:
    lines = cli("worker", "show", "boss.yaml", "--tree").out.splitlines()
    assert lines[0] == "boss: Leads"
    assert "    helper: Helps" in lines
    assert "      model: that of its parent, or of the command line" in lines
    assert f"      /mine: write preApproved, delete blocked ({workers.folder}/out/deep)" in lines
    assert "        boss: Leads" in lines
    assert "          refused: already running: a cycle" in lines


def test_too_deep_tree_says_so(cli, project) -> None:
    for number in range(7):
        project.write(
            f"w{number}.yaml",
            f"name: w{number}\ntoolsets: {{workers: {{allowed: [w{number + 1}]}}}}\n",
        )
    project.write("w7.yaml", "name: w7\n")
    out = cli("worker", "show", "w0.yaml", "--tree").out
    assert "refused: 6 levels of workers; the maximum is 5" in out
    assert "w7" not in out.partition("refused")[2]


def test_tree_contains_only_offered_workers(cli, project) -> None:
    project.write("a.yaml", "name: a\n")
    project.write("b.yaml", "name: b\n")
    project.write(
        "boss.yaml",
        "name: boss\ntoolsets: {workers: {allowed: [a, b], tools: [b], prefix: call}}\n",
    )
    found = json.loads(cli("worker", "show", "boss.yaml", "--tree", "--json").out)
    assert [called["name"] for called in found["workers"]] == ["b"]
    assert found["tools"] == {"call_b": "ask"}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "more", ["", ", shell: {}", ", shell: {}, custom: {module: ./tools.py, tools: [look]}"]
)
def test_prompt_equals_that_of_the_model(cli, project, more: str) -> None:
    project.write("../.git/HEAD", "ref: refs/heads/around\n")
    project.write("tools.py", 'def look(n: int) -> int:\n    """Look."""\n    return n\n')
    project.write("AGENTS.md", "Use tabs.\n")
    project.write("script.yaml", "turns: [{text: '{}'}]\n")
    schema = "output_schema: {type: object}\nagents_md: true\nmodel: script:script.yaml\n"
    project.write(
        "worker.yaml", f"name: w\ninstructions: You work.\n{schema}toolsets: {{plan: {{}}{more}}}\n"
    )
    out = cli("worker", "show", "worker.yaml", "--prompt").out
    assert out.startswith("You work.\n\n")
    assert "Use tabs." in out
    assert "keep a plan with update_plan" in out
    assert '{"type": "object"}' in out
    assert f"- Working directory: {project.folder}, git branch around\n" in out
    assert ("- Commands: run in the working directory" in out) is bool(more)
    heard: list[str] = []

    class Listening:
        name, context_window = "listening", None

        async def stream(self, request):
            heard.append(request.system)
            raise RuntimeError("enough")
            yield

        async def aclose(self) -> None: ...

    project.run(model=Listening())
    assert heard == [out.removesuffix("\n")]


def test_show_creates_and_starts_nothing(cli, workers) -> None:
    before = sorted(os.walk(workers.folder))
    for view in ([], ["--policy"], ["--tree"], ["--prompt"]):
        assert cli("worker", "show", "boss.yaml", *view).code == 0
    assert sorted(os.walk(workers.folder)) == before
    assert not Path(workers.folder.parent / "far").exists()


def test_show_refuses_two_views_at_once(cli, workers) -> None:
    done = cli("worker", "show", "boss.yaml", "--policy", "--tree")
    assert done.code == 2
    assert "keep one" in done.err


@pytest.mark.parametrize("view", [[], ["--tree"], ["--policy"]])
def test_invalid_worker_is_an_error_with_its_place(cli, project, view) -> None:
    project.write("w.yaml", "name: w\ntoolsets: {workers: {allowed: [nobody]}}\n")
    done = cli("worker", "show", "w.yaml", *view)
    assert done.code == 3
    assert "w.yaml:2:32: " in done.err
