"""``forge run --draft`` and ``forge drafts``: real files change only when a person applies the draft.

Covers forge_cli.cli.drafting, forge_cli.cli.drafts.list, forge_cli.cli.drafts.show, forge_cli.cli.drafts.apply,
forge_cli.cli.drafts.common, forge_cli.cli.drafts.review, forge_cli.cli.drafts.reviewing,
forge_cli.engine.runtime.drafting, forge_cli.sandbox.drafts.draft, forge_cli.sandbox.drafts.view,
forge_cli.sandbox.drafts.link, forge_cli.sandbox.drafts.changes, forge_cli.sandbox.drafts.starter.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.deadline import deadline
from tests.support.interpreter import PYTHON
from tests.support.logs import script

pytestmark = [pytest.mark.needs("overlay", "git")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets:
  filesystem: {}
  shell:
    rules:
      - {use: reading}
      - {pattern: git push, approval: blocked}
      - {pattern: chmod, approval: ask}
"""
WRITE = call("write_file", path="made.txt", content="new\n")
EDIT = call("edit_file", path="old.txt", old="one", new="two")


def shell(command: str) -> Any:
    return call("shell", command=command)


@pytest.fixture
def drafter(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("old.txt", "one\n")
    project.write("gone.txt", "gone\n")
    return project


def run(project: Project, *made: Any, flags: tuple[str, ...] = (), code: int = 0) -> dict[str, Any]:
    """Run the worker with these calls in a draft, and return the result."""
    script(project, calls(*made), "done")
    done = project.forge("run", "worker.yaml", "go", "--draft", "--output-format", "json", *flags)
    assert done.returncode == code, done
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def drafts(project: Project) -> list[dict[str, Any]]:
    done = project.forge("drafts", "list", "--json")
    assert done.returncode == 0, done
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def files(project: Project) -> dict[str, str]:
    return {
        str(path.relative_to(project.folder)): path.read_text()
        for path in sorted(project.folder.rglob("*.txt"))
    }


BEFORE = {"gone.txt": "gone\n", "old.txt": "one\n"}
AFTER = {"by-shell.txt": "x\n", "made.txt": "new\n", "old.txt": "two\n"}


def work(project: Project, *flags: str) -> dict[str, Any]:
    return run(
        project, WRITE, EDIT, shell("rm gone.txt"), shell("echo x > by-shell.txt"), flags=flags
    )


def test_draft_leaves_the_real_files_as_they_are_and_is_ready(drafter: Project) -> None:
    result = work(drafter)
    assert result["denials"] == []
    assert files(drafter) == BEFORE
    assert result["draft"]["state"] == "ready"
    assert result["draft"]["conflicts"] == []
    assert sorted((each["path"], each["change"]) for each in result["draft"]["changes"]) == [
        ("by-shell.txt", "created"),
        ("gone.txt", "deleted"),
        ("made.txt", "created"),
        ("old.txt", "changed"),
    ]
    [row] = drafts(drafter)
    assert (row["id"], row["state"]) == (result["draft"]["id"], "ready")
    assert row["session"] == result["sessionId"]


def test_applied_draft_changes_the_files_and_undo_takes_it_back(drafter: Project) -> None:
    work(drafter)
    shown = drafter.forge("drafts", "show")
    assert "+two" in shown.stdout
    assert "-one" in shown.stdout
    applied = drafter.forge("drafts", "apply", "last")
    assert applied.returncode == 0, applied
    assert files(drafter) == AFTER
    assert drafts(drafter) == []
    undone = drafter.forge("undo", "last")
    assert undone.returncode == 0, undone
    assert files(drafter) == BEFORE


def test_part_of_a_draft_is_applied_and_the_rest_waits(drafter: Project) -> None:
    work(drafter)
    assert drafter.forge("drafts", "apply", "last", "made.txt").returncode == 0
    assert files(drafter) == {**BEFORE, "made.txt": "new\n"}
    [row] = drafts(drafter)
    assert row["state"] == "ready"
    assert sorted(each["path"] for each in row["changes"]) == [
        "by-shell.txt",
        "gone.txt",
        "old.txt",
    ]
    assert drafter.forge("drafts", "apply", "last").returncode == 0
    assert files(drafter) == AFTER


def test_dropped_draft_leaves_nothing(drafter: Project) -> None:
    work(drafter)
    assert drafter.forge("drafts", "drop", "last").returncode == 0
    assert files(drafter) == BEFORE
    assert list((drafter.home / "drafts").iterdir()) == []


def test_draft_that_changed_nothing_is_dropped_by_itself(drafter: Project) -> None:
    result = run(drafter, call("read_file", path="old.txt"))
    assert result["draft"]["state"] == "dropped"
    assert drafts(drafter) == []


def test_file_that_somebody_else_changed_conflicts_and_is_not_written(drafter: Project) -> None:
    work(drafter)
    drafter.write("old.txt", "mine\n")
    refused = drafter.forge("drafts", "apply", "last")
    assert refused.returncode == 1
    assert "old.txt' was changed since the draft began; nothing was applied" in refused.stderr
    assert files(drafter) == {**BEFORE, "old.txt": "mine\n"}
    assert drafter.forge("drafts", "apply", "last", "made.txt").returncode == 0
    [row] = drafts(drafter)
    assert row["conflicts"] == ["old.txt"]


def test_deletion_by_somebody_else_conflicts_with_an_edit(drafter: Project) -> None:
    work(drafter)
    (drafter.folder / "old.txt").unlink()
    refused = drafter.forge("drafts", "apply", "last", "old.txt")
    assert refused.returncode == 1
    assert "was deleted since the draft began" in refused.stderr


def test_blocked_and_named_rules_hold_in_a_draft(drafter: Project) -> None:
    result = run(drafter, shell("git push"), shell("chmod 700 old.txt"))
    assert [(each["tool"], each["by"]) for each in result["denials"]] == [
        ("shell", "rule"),
        ("shell", "headless"),
    ]


def test_network_and_files_that_forge_obeys_still_ask_in_a_draft(drafter: Project) -> None:
    network = (
        f"{sys.executable} -c \"import socket; socket.create_connection(('203.0.113.1', 80))\""
    )
    result = run(
        drafter,
        shell(network),
        call("edit_file", path="worker.yaml", old="name: drafter", new="name: other"),
        shell("mkdir -p .forge && echo 'draft: false' > .forge/config.yaml"),
    )
    assert [each["by"] for each in result["denials"]] == ["headless"] * 3, result
    assert result["draft"]["state"] == "dropped"


def test_protected_names_change_unasked_and_are_taken_by_name(drafter: Project) -> None:
    result = run(
        drafter,
        call("write_file", path=".env", content="KEY=1\n"),
        call("write_file", path=".github/workflows/ci.yml", content="on: push\n"),
        shell("mkdir .vscode && echo {} > .vscode/tasks.json && echo x > plain.txt"),
        shell("git init -q . && printf '#!/bin/sh\\n' > .git/hooks/pre-commit"),
        shell("echo /elsewhere > .git/objects/info/alternates"),
        shell("git config user.name a && git config user.email a@b && git add plain.txt"),
        shell("git commit -qm one"),
    )
    assert result["denials"] == []
    shown = drafter.forge("drafts", "show")
    assert "PROTECTED" in shown.stdout
    assert "refs/heads/" in shown.stdout
    assert drafter.forge("drafts", "apply", "last").returncode == 0
    made = {str(path.relative_to(drafter.folder)) for path in drafter.folder.rglob("*")}
    assert "plain.txt" in made
    assert not made & {".env", ".github", ".vscode", ".git/hooks/pre-commit", ".git/config"}
    assert ".git/objects/info/alternates" not in made
    named = drafter.forge("drafts", "apply", "last", ".env", ".github/workflows/ci.yml")
    assert named.returncode == 0, named
    assert drafter.read(".github/workflows/ci.yml") == "on: push\n"


def test_zone_that_states_ask_still_asks_in_a_draft(drafter: Project) -> None:
    stated = "mode: rw, approval: {write: ask, delete: blocked}"
    drafter.write("worker.yaml", WORKER.replace("mode: rw", stated))
    result = run(drafter, WRITE, call("delete_file", path="old.txt"), shell("rm old.txt"))
    assert [each["by"] for each in result["denials"]] == ["headless", "rule", "rule"]


def test_exit_code_of_a_draft_depends_on_the_flag(drafter: Project) -> None:
    assert work(drafter, "--on-end", "drop")["draft"]["state"] == "dropped"
    assert (files(drafter), drafts(drafter)) == (BEFORE, [])
    assert work(drafter, "--on-end", "apply", "-y")["draft"]["state"] == "applied"
    assert (files(drafter), drafts(drafter)) == (AFTER, [])


def test_applying_unseen_needs_the_person(drafter: Project) -> None:
    done = drafter.forge("run", "worker.yaml", "go", "--draft", "--on-end", "apply")
    assert done.returncode == 2
    assert "--on-end apply" in done.stderr


def test_resumed_session_continues_in_its_draft(drafter: Project) -> None:
    first = run(drafter, WRITE)
    script(
        drafter, calls(WRITE), "done", calls(call("read_file", path="made.txt")), "read {result}"
    )
    done = drafter.forge("run", "worker.yaml", "more", "-r", first["sessionId"], "-p")
    assert done.returncode == 0, done
    assert "new" in done.stdout
    assert files(drafter) == BEFORE
    [row] = drafts(drafter)
    assert row["id"] == first["draft"]["id"]


def test_killed_session_leaves_a_draft_that_can_be_applied(
    drafter: Project, tmp_path: Path
) -> None:
    mark = drafter.folder / "mark.txt"
    script(drafter, calls(WRITE, shell("touch mark.txt; sleep 60")), "done")
    argv = [sys.executable, "-m", "forge_cli", "run", "worker.yaml", "go", "--draft", "-p"]
    env = {**os.environ, "FORGE_HOME": str(drafter.home)}
    started = subprocess.Popen(argv, cwd=drafter.folder, env=env, stdin=subprocess.DEVNULL)
    upper = drafter.home / "drafts"
    with deadline(30):
        while not list(upper.glob("*/*/upper/made.txt")):
            time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    started.wait(30)
    with deadline(60):
        while "in use" in (done := drafter.forge("drafts", "apply", "last", "made.txt")).stderr:
            time.sleep(0.05)
    assert done.returncode == 0, done
    assert not mark.exists()
    assert files(drafter)["made.txt"] == "new\n"


@pytest.mark.parametrize("command", ["show", "apply", "drop", "review"])
def test_unknown_draft_is_named(project: Project, command: str) -> None:
    done = project.forge("drafts", command, "nothing")
    assert done.returncode == 2
    expected = "not a terminal" if command == "review" else "there is no draft 'nothing'"
    assert expected in done.stderr


SERVER = """
import os, sys
from pathlib import Path
from mcp.server import MCPServer

server = MCPServer("out")


@server.tool()
def leave(real: str) -> str:
    \"\"\"Try every way to a file of the real folder.\"\"\"
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            Path(f"/proc/{pid}/root{real}").write_text("reached")
            if os.stat(f"/proc/{pid}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
                found.append(pid)
        except OSError:
            pass
        try:
            os.setns(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), 0)
            found.append(f"ns {pid}")
        except (OSError, AttributeError):
            pass
    os.system(f"umount {os.path.dirname(real)} 2>/dev/null && echo out > {real}")
    return f"reached: {found}"


server.run("stdio")
"""


def test_unconfined_server_cannot_reach_the_real_files_of_a_draft(drafter: Project) -> None:
    drafter.write("server.py", SERVER)
    server = f"{{command: {PYTHON}, args: [{drafter.folder / 'server.py'}]}}"
    allow = "approval: {default: preApproved}"
    drafter.write("worker.yaml", f"{WORKER}  mcp:\n    {allow}\n    servers: {{out: {server}}}\n")
    leave = call("out__leave", real=str(drafter.folder / "old.txt"))
    # Root has every capability in the user namespaces that it owns, such as those of browsers.
    sandboxed = "import ctypes, time; ctypes.CDLL(None).unshare(0x10000000); time.sleep(300)"
    bystander = subprocess.Popen([sys.executable, "-c", sandboxed])
    try:
        result = run(drafter, leave, WRITE, flags=("-y",))
    finally:
        bystander.kill()
        bystander.wait(30)
    assert files(drafter) == BEFORE
    assert result["draft"]["state"] == "ready"
    assert result["toolCalls"] == 2
    assert result["denials"] == []


def test_worker_and_settings_can_make_every_session_a_draft(drafter: Project) -> None:
    drafter.write("worker.yaml", WORKER.replace("sandbox: {", "sandbox: {draft: true, "))
    script(drafter, calls(WRITE), "done")
    assert drafter.forge("run", "worker.yaml", "go", "-p").returncode == 0
    assert [each["state"] for each in drafts(drafter)] == ["ready"]
    drafter.write("worker.yaml", WORKER)
    (drafter.home / "config.yaml").write_text("draft: true\n")
    assert drafter.forge("run", "worker.yaml", "go", "-p").returncode == 0
    assert [each["state"] for each in drafts(drafter)] == ["ready", "ready"]
    assert files(drafter) == BEFORE
