"""A zone that blocks deletions, or asks before each, does so for commands, judged on a copy.

Covers forge_cli.sandbox.trial.deletions.
"""

import json
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from forge_cli import ApprovalRequest
from forge_cli.core.approval import Approval
from forge_cli.core.errors import BlockedError, NotAsJudged
from forge_cli.core.events import ApprovalDecided, ApprovalRequired, ToolResult
from forge_cli.core.zones import Zone, ZoneApproval, ZoneMode
from forge_cli.sandbox.changes.apply import ChangeSet
from forge_cli.sandbox.changes.path_changes import Entry, PathChange
from forge_cli.sandbox.trial.deletions import DeletionRules
from forge_cli.testing import Project, Seen, call, calls

WORKER = """
name: w
model: script:script.yaml
toolsets:
  shell: {rules: [RULES], TRY}
  filesystem: {}
sandbox:
  zones:
    - {name: code, path: ., mode: rw, approval: {write: preApproved}}
    - {name: vault, path: dist/vault, mode: rw, approval: {write: preApproved, delete: DELETE}}
"""
RULE = "{pattern: sh g.sh, approval: preApproved}"


def project_of(
    project: Project, delete: str, rules: str = "", try_first: str = "try: auto"
) -> Project:
    worker = WORKER.replace("DELETE", delete).replace("RULES", rules).replace("TRY", try_first)
    project.write("worker.yaml", worker)
    for name in ("dist/vault/a", "dist/vault/sub/b", "other"):
        project.write(name, f"{name}\n")
    return project


def run(project: Project, script: str, *answers: bool) -> Seen:
    project.write("g.sh", script)
    return project.run(
        calls(call("shell", command="sh g.sh")), "done", timeout=120, answers=answers
    )


def status(seen: Seen) -> str:
    return seen.of(ToolResult)[0].status


DELETES = [
    "rm dist/vault/a",
    "rm -r dist/vault/sub",
    "mv dist/vault/a moved",
    "mv dist/vault/a dist/vault/c",
    "rm dist/vault/a; mkdir dist/vault/a",
    "rm dist/vault/a; ln -s /etc/passwd dist/vault/a",
    "python3 -c 'import os; os.unlink(\"dist/vault/a\")'",
    "find dist -name b -delete",
    "cd dist/vault && rm -rf * .[a-z]*",
    "echo new > dist/vault/new; rm dist/vault/a; false",
]


@pytest.mark.few(8)
@pytest.mark.needs("overlay")
@pytest.mark.parametrize("rules", [RULE, ""], ids=["rule", "trial"])
@pytest.mark.parametrize("script", DELETES)
def test_zone_that_blocks_deletions_applies_to_commands(
    project: Project, script: str, rules: str
) -> None:
    """For pre-approved and tried lines; nothing of them is applied, and nobody is asked."""
    seen = run(project_of(project, "blocked", rules), f"echo more > other\n{script}")
    assert status(seen) == "blocked"
    assert "and zone 'vault' blocks deletions" in str(seen.of(ToolResult)[0].error)
    assert not seen.of(ApprovalRequired)
    files = {
        str(path.relative_to(project.folder))
        for path in project.folder.rglob("*")
        if path.is_file()
    }
    assert {"dist/vault/a", "dist/vault/sub/b", "other"} <= files
    assert (project.folder / "other").read_text() == "other\n"


@pytest.mark.needs("overlay")
@pytest.mark.parametrize(
    "script",
    [
        "rm other",
        "echo x > dist/vault/a",
        "mkdir dist/vault/n; echo > dist/vault/n/f",
        "touch dist/vault/t; rm dist/vault/t",
    ],
)
def test_other_changes_in_such_a_zone_are_made(project: Project, script: str) -> None:
    seen = run(project_of(project, "blocked", RULE), script)
    assert status(seen) == "success"
    assert not seen.of(ApprovalRequired)


@pytest.mark.needs("overlay")
def test_untried_line_is_judged_as_well(project: Project) -> None:
    """Without trials, with ``-y``, and if commands write at once."""
    project_of(project, "blocked", try_first="try: off").write("g.sh", "rm dist/vault/a")
    assert status(run(project, "rm dist/vault/a", True)) == "blocked"
    worker = (project.folder / "worker.yaml").read_text()
    project.write("worker.yaml", f"{worker}undo: files\n")
    project.write(
        "script.yaml",
        json.dumps({"turns": [calls(call("shell", command="sh g.sh")), {"text": "{result}"}]}),
    )
    done = project.forge("run", "worker.yaml", "go", "-p", "-y")
    assert "zone 'vault' blocks deletions" in done.stdout
    assert (project.folder / "dist/vault/a").exists()


@pytest.mark.needs("overlay")
@pytest.mark.parametrize("answer", [True, False])
def test_zone_that_asks_before_deletions_applies_to_a_pre_approved_line(
    project: Project, answer: bool
) -> None:
    seen = run(project_of(project, "ask", RULE), "rm dist/vault/a; echo more > other", answer)
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    assert asked.request.reason == "it deletes /vault/a, and deleting in zone 'vault' needs your OK"
    assert asked.request.preview is not None
    assert "deleted  dist/vault/a" in asked.request.preview.text()
    assert (project.folder / "dist/vault/a").exists() is not answer
    assert ((project.folder / "other").read_text() == "more\n") is answer


@pytest.mark.needs("overlay")
@pytest.mark.parametrize("try_first", ["try: auto", "try: off"])
@pytest.mark.parametrize("answer", [True, False])
def test_line_whose_deletion_needs_consent_runs_once(
    project: Project, answer: bool, try_first: str
) -> None:
    """It speaks to a server, which a trial could not, so that running it again would have its effect twice."""
    visits = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    server.accept()[0].close()
                    visits.append("visit")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        visit = f"import socket; socket.create_connection({server.getsockname()!r})"
        project_of(project, "ask", RULE, try_first)
        worker = project.read("worker.yaml")
        project.write("worker.yaml", worker.replace("sandbox:\n", "sandbox:\n  network: true\n"))
        seen = run(project, f'python3 -c "{visit}" && rm dist/vault/a && echo hi', answer)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(30)
    assert visits == ["visit"]
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    assert asked.request.preview is not None
    text = asked.request.preview.text()
    assert text.startswith("already ran on a copy: exit code: 0 after ")
    assert "; nothing is applied yet\n" in text
    assert "deleted  dist/vault/a" in text
    assert (project.folder / "dist/vault/a").exists() is not answer
    assert status(seen) == ("success" if answer else "denied")


@pytest.mark.needs("overlay")
def test_line_whose_deletion_needs_consent_runs_once_if_everything_is_approved(
    project: Project,
) -> None:
    project_of(project, "ask", RULE).write(
        "script.yaml",
        json.dumps({"turns": [calls(call("shell", command="sh g.sh")), {"text": "{result}"}]}),
    )
    # All commands of the session share their /tmp, so that it counts the runs.
    project.write("g.sh", "rm dist/vault/a; echo run >> /tmp/runs; cp /tmp/runs runs")
    project.forge("run", "worker.yaml", "go", "-p", "-y")
    assert project.read("runs") == "run\n"
    assert not (project.folder / "dist/vault/a").exists()


@pytest.mark.needs("overlay")
def test_zone_that_asks_before_deletions_allows_other_changes(project: Project) -> None:
    seen = run(project_of(project, "ask", RULE), "echo x > dist/vault/new; rm other")
    assert (status(seen), seen.of(ApprovalRequired)) == ("success", [])


@pytest.mark.needs("overlay")
def test_zone_without_a_rule_for_deletions_does_not_limit_commands(project: Project) -> None:
    project_of(project, "preApproved", RULE)
    seen = run(project, "rm dist/vault/a other")
    assert (status(seen), seen.of(ApprovalRequired)) == ("success", [])


@pytest.mark.needs("overlay")
def test_interactive_session_in_such_a_zone_asks(project: Project) -> None:
    """It works on no copy."""
    project_of(project, "blocked", "{pattern: sleep 1, approval: preApproved}")
    seen = project.run(
        calls(call("exec_command", command="sleep 1")), "done", timeout=120, answers=[False]
    )
    decided = seen.of(ApprovalDecided)[0]
    assert decided.approved is False
    assert "cannot be judged" in decided.reason


def test_worker_check_reports_commands_that_zones_do_not_limit(project: Project) -> None:
    project_of(project, "blocked", RULE).write("empty/x", "")
    worker = (project.folder / "worker.yaml").read_text()
    project.write("worker.yaml", worker.replace("sandbox:\n", "sandbox:\n  isolation: off\n"))
    done = project.forge("worker", "check", "worker.yaml")
    says = "'delete: blocked' of zone 'vault' binds tools only, not commands, which have no copies here: "
    assert f"{says}commands are not confined" in done.stderr


def test_worker_check_reports_no_limited_commands_also_beside_a_module(
    project: Project,
) -> None:
    project_of(project, "blocked", RULE).write("empty/x", "")
    project.write("tools.py", "def look() -> str:\n    'Look.'\n    return 'x'\n")
    worker = (project.folder / "worker.yaml").read_text()
    more = "toolsets:\n  custom: {module: ./tools.py, tools: [look]}\n"
    project.write("worker.yaml", worker.replace("toolsets:\n", more))
    assert "custom" in project.read("worker.yaml")
    done = project.forge("worker", "check", "worker.yaml")
    assert "binds tools only" not in done.stderr


def zone(name: str, path: str, delete: str, *, stated: bool = True) -> Zone:
    approval = ZoneApproval(Approval.PRE_APPROVED, Approval(delete))
    return Zone(name, Path(path), ZoneMode.RW, approval, delete_stated=stated)


def gone(path: str, zone: str = "/w") -> PathChange:
    return PathChange(
        zone, tuple(os.path.relpath(path, zone).split("/")), Entry("file", 0o644, (0, 0)), None
    )


def judge(sets: list[list[Zone]], *paths: str, asked: bool) -> None:
    check = DeletionRules(sets).judge(asked=asked)
    if check:
        check(ChangeSet(Path("/nowhere"), tuple(map(gone, paths))))


def test_innermost_zone_and_every_worker_of_a_chain_decide() -> None:
    outer, inner = zone("w", "/w", "blocked"), zone("free", "/w/free", "preApproved")
    judge([[outer, inner]], "/w/free/x", asked=False)
    with pytest.raises(BlockedError, match="/w/freedom/x"):
        judge([[outer, inner]], "/w/free/x", "/w/freedom/x", asked=True)
    with pytest.raises(BlockedError):
        judge([[inner], [outer]], "/w/free/x", asked=True)
    asks = [[zone("w", "/w", "ask")]]
    judge(asks, "/w/x", asked=True)
    with pytest.raises(NotAsJudged):
        judge(asks, "/w/x", asked=False)
    judge([[zone("w", "/w", "ask", stated=False)]], "/w/x", asked=False)
    judge(asks, "/w/__pycache__/x.pyc", asked=False)
