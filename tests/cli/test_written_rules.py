"""A rule that was offered for a call and written into a file pre-approves that call from then on."""

from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.approval import Approval, GrantOffer
from forge_cli.core.calls import ToolCall
from forge_cli.engine.gate.grants import offers_for
from forge_cli.engine.gate.steps import Caller, Judged
from forge_cli.engine.runtime.without_model import bare_worker, opened
from forge_cli.files.edit import plan_edit
from forge_cli.files.worker import load_worker
from forge_cli.testing import Project

TOOLS = "def look(at: str = '.') -> str:\n    '''Look.'''\n    return at\n"
WORKERS = {
    "plain": "name: w\ntoolsets: {filesystem: , shell: , custom: {module: ./tools.py, tools: [look]}}\n",
    "detailed": """
name: w
sandbox:
  zones:
    - name: workspace  # all of it
      path: .
      mode: rw
      approval: {write: ask, delete: ask}
toolsets:
  filesystem: {}
  shell:
    default: ask
    rules:
      - {pattern: "git push", approval: ask}
  custom:
    module: ./tools.py
    tools: [look]
    approval:
      default: ask
""",
    "user": "name: w\ntoolsets:\n  filesystem:\n  custom: {module: ./tools.py, tools: [look]}\n  shell: {rules: []}\n",
}
CONFIG = 'policy: {shell: {rules: [{pattern: "git push", approval: ask}]}}\n'
MOVE = "*** Begin Patch\n*** Update File: /workspace/a.txt\n*** Move to: /workspace/b.txt\n-one\n+two\n*** End Patch"
CALLS: list[tuple[str, dict[str, Any], int]] = [
    ("shell", {"command": "pytest -x 2>&1 | tail -5"}, 1),
    ("shell", {"command": "git add . && git commit -m 'a b'"}, 1),
    ("exec_command", {"command": "npm test"}, 1),
    ("write_file", {"path": "/workspace/new.txt", "content": "x"}, 1),
    ("delete_file", {"path": "/workspace/a.txt"}, 1),
    ("apply_patch", {"input": MOVE}, 1),
    ("look", {"at": "x"}, 1),
    ("shell", {"command": "git push"}, 0),
    ("shell", {"command": "ls $(x)"}, 0),
    ("write_file", {"path": "/workspace/.env", "content": "x"}, 0),
]


async def judged(project: Project, tool: str, args: dict[str, Any]) -> Judged:
    worker = load_worker(project.folder / "worker.yaml")
    async with opened(worker, workspace=project.folder, make_zones=False) as assembly:
        return await assembly.guard.judge.verdict(ToolCall("c1", tool, args), Caller.MODEL)


@pytest.mark.few(4)
@pytest.mark.anyio
@pytest.mark.parametrize("worker", WORKERS)
@pytest.mark.parametrize(("tool", "args", "offered"), CALLS, ids=lambda value: str(value)[:40])
async def test_every_offered_rule_works_where_it_is_written(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    worker: str,
    tool: str,
    args: dict[str, Any],
    offered: int,
) -> None:
    monkeypatch.setenv("FORGE_HOME", str(project.home))
    project.write("tools.py", TOOLS)
    project.write("a.txt", "one\n")
    files = {"worker": project.folder / "worker.yaml", "user": project.home / "config.yaml"}
    before = {"worker": WORKERS[worker], "user": CONFIG}

    def restore() -> None:
        for name, file in files.items():
            file.write_text(before[name])

    project.home.mkdir(parents=True, exist_ok=True)
    restore()
    asked = (await judged(project, tool, args)).verdict
    offers = offers_for(asked.grants)
    assert (asked.approval, len(offers)) == (Approval.ASK, offered)
    for name, offer in _places(offers):
        restore()
        plan_edit(Path(files[name]), offer.rules, user=name == "user").write()
        assert (await judged(project, tool, args)).verdict.approval is Approval.PRE_APPROVED, (
            name,
            offer.text,
        )


@pytest.mark.anyio
async def test_worker_without_a_file_has_no_place_for_rules(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    project.write("worker.yaml", WORKERS["plain"])
    project.write("tools.py", TOOLS)
    for worker, files in (
        (bare_worker({"shell": None}), {"user"}),
        (load_worker("worker.yaml"), {"user", "worker"}),
    ):
        async with opened(worker, workspace=project.folder, home=project.home) as assembly:
            assert set(assembly.guard.judge.worker.policy_files) == files


def _places(offers: list[GrantOffer]) -> list[tuple[str, GrantOffer]]:
    user = [("user", offer) for offer in offers if all(rule.user_at for rule in offer.rules)]
    return [*(("worker", offer) for offer in offers), *user]
