"""Approval of paths: zones, protected names, and the reason of a question.

Covers forge_cli.sandbox.protected.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.approval import Approval
from forge_cli.core.errors import Mark
from forge_cli.core.zones import Access
from forge_cli.files.document import parse_document
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.protected import is_protected, is_secret
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.declared import open_zones
from forge_cli.schema.config import parse_config
from tests.support.rows import each_row

OpenSandbox = Callable[..., Sandbox]

PRE_APPROVED: dict[str, Any] = {"write": "preApproved", "delete": "preApproved"}
PROJECT: list[dict[str, Any]] = [
    {"name": "project", "path": "output", "mode": "rw", "approval": PRE_APPROVED}
]


@pytest.fixture
def project(root: Path) -> Path:
    return root / "output"


@pytest.fixture
def permissive(open_sandbox: OpenSandbox) -> Sandbox:
    return open_sandbox(PROJECT)


def test_verdict_names_the_rule_and_where_it_is_written(root: Path) -> None:
    text = "zones:\n  - name: output\n    mode: rw\n    approval: {write: preApproved, delete: blocked}\n  - name: src\n"
    config = parse_config(SandboxConfig, parse_document(text, "worker.yaml"))
    sandbox = Sandbox(
        open_zones(config, workspace=root, user_home=Path("/nonexistent"), file="worker.yaml")
    )

    def judged(path: str, access: Access) -> tuple[Approval, str, str | None, Mark | None, str]:
        verdict = sandbox.judge(path, access)
        return verdict.approval, verdict.reason, verdict.rule, verdict.where, verdict.by

    write, delete, src = (
        f"sandbox.zones.{place}"
        for place in ("output.approval.write", "output.approval.delete", "src")
    )
    assert judged("/output/a", Access.WRITE) == (
        Approval.PRE_APPROVED,
        "zone 'output' pre-approves write",
        write,
        Mark("worker.yaml", 4, 23),
        "rule",
    )
    assert judged("/output/a", Access.DELETE) == (
        Approval.BLOCKED,
        "zone 'output' blocks delete",
        delete,
        Mark("worker.yaml", 4, 44),
        "rule",
    )
    assert judged("/src/a", Access.READ) == (
        Approval.PRE_APPROVED,
        "inside zone 'src'",
        src,
        Mark("worker.yaml", 5, 5),
        "rule",
    )


def test_default_zone_asks_before_anything_changes(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(None)

    assert sandbox.judge("a.txt", Access.READ).approval is Approval.PRE_APPROVED
    for access in (Access.WRITE, Access.DELETE):
        verdict = sandbox.judge("a.txt", access)
        assert verdict.approval is Approval.ASK
        assert verdict.rule == "the default zone 'workspace'"


@each_row(
    "name",
    [
        ".git",
        ".GIT",
        ".g\u200cit",
        ".forge",
        ".env",
        ".ENV.local",
        ".envrc",
        ".mcp.json",
        "MCP.json",
        ".bashrc",
        ".gitconfig",
        ".npmrc",
        ".cargo",
        ".vscode",
        ".husky",
        "worker.yaml",
        "Worker.YML",
        "x.worker",
        ".zshrc",
        *(
            ".claude",
            ".codex",
            ".gemini",
            ".opencode",
            ".cursor",
            ".windsurf",
            ".idea",
            ".circleci",
            ".envrc",
        ),
        *(
            "AGENTS.md",
            "agents.md",
            "CLAUDE.md",
            "GEMINI.md",
            ".cursorrules",
            ".gitattributes",
            ".gitmodules",
        ),
        *(
            ".github/workflows",
            ".GitHub/Workflows",
            ".gitlab-ci.yml",
            ".pre-commit-config.yaml",
            "Jenkinsfile",
        ),
    ],
)
@each_row("access", [Access.WRITE, Access.DELETE])
@each_row("path", ["{}", "{}/below", "deep/{}", "deep/{}/below"])
def test_protected_names_ask_existing_or_not(
    permissive: Sandbox, name: str, access: Access, path: str
) -> None:
    verdict = permissive.judge(f"/project/{path.format(name)}", access)

    assert verdict.approval is Approval.ASK
    assert "is a protected name" in verdict.reason
    assert verdict.reason.isprintable()


@pytest.mark.parametrize(
    "name",
    [
        ".github",
        "workflows",
        "AGENTS.txt",
        "Makefile",
        "conftest.py",
        ".gitignore",
        "env",
        ".venv",
        "git",
        "bashrc",
        "forge",
        "tools.py",
        "x.env",
    ],
)
def test_names_that_are_not_in_the_table_are_ordinary(permissive: Sandbox, name: str) -> None:
    assert permissive.judge(f"/project/{name}", Access.WRITE).approval is Approval.PRE_APPROVED
    assert not is_protected(name)


@pytest.mark.parametrize(
    "path", ["/project/.env", "/project/a/.ENV.production", "/project/.envs/django"]
)
def test_reading_what_may_hold_secrets_asks(permissive: Sandbox, path: str) -> None:
    verdict = permissive.judge(path, Access.READ)

    assert verdict.approval is Approval.ASK
    assert "may hold secrets" in verdict.reason


@pytest.mark.parametrize(
    "path", ["/project/.git/config", "/project/.forge/config.yaml", "/project/.bashrc"]
)
def test_reading_other_protected_names_does_not_ask(permissive: Sandbox, path: str) -> None:
    assert permissive.judge(path, Access.READ).approval is Approval.PRE_APPROVED
    assert not is_secret(Path(path).name)


def test_existence_of_a_secret_is_visible(permissive: Sandbox) -> None:
    assert permissive.judge("/project/.env", Access.INFO).approval is Approval.PRE_APPROVED


def test_link_does_not_hide_a_protected_name(permissive: Sandbox, project: Path) -> None:
    (project / ".git").mkdir()
    (project / "plain").symlink_to(".git/config")
    (project / "dotenv").symlink_to(".env")

    assert permissive.judge("/project/plain", Access.WRITE).approval is Approval.ASK
    assert permissive.judge("/project/dotenv", Access.READ).approval is Approval.ASK


def test_protected_name_that_is_a_link_protects_what_it_leads_to(
    permissive: Sandbox, project: Path
) -> None:
    (project / ".env").symlink_to("settings.txt")
    (project / "again").symlink_to(".env")

    for path in ("/project/.env", "/project/again"):
        assert permissive.judge(path, Access.WRITE).approval is Approval.ASK
        assert permissive.judge(path, Access.READ).approval is Approval.ASK
    assert permissive.judge("/project/settings.txt", Access.WRITE).approval is Approval.PRE_APPROVED


def test_zone_inside_a_protected_folder_asks_for_everything(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(
        [{"name": "tools", "path": "h/.forge/tools", "mode": "rw", "approval": PRE_APPROVED}]
    )

    assert sandbox.judge("/tools/x/tool.yaml", Access.WRITE).approval is Approval.ASK
    assert sandbox.judge("/tools/x/tool.yaml", Access.READ).approval is Approval.PRE_APPROVED


def test_folder_above_a_zone_makes_no_file_secret(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox(
        [{"name": "work", "path": ".envs/work", "mode": "rw", "approval": PRE_APPROVED}]
    )

    assert sandbox.judge("/work/a", Access.READ).approval is Approval.PRE_APPROVED
    assert sandbox.judge("/work/a", Access.WRITE).approval is Approval.PRE_APPROVED


def test_workers_own_files_ask(open_sandbox: OpenSandbox, project: Path) -> None:
    (project / "worker.yaml").write_text("name: w")
    (project / "linked").symlink_to("worker.yaml")
    sandbox = open_sandbox(PROJECT, protected=(project / "worker.yaml", project / "tools.py"))

    for path in ("worker.yaml", "WORKER.yaml", "linked", "tools.py", "./x/../tools.py"):
        verdict = sandbox.judge(f"/project/{path}", Access.WRITE)
        assert verdict.approval is Approval.ASK, path
        assert "the worker's own files" in verdict.reason
    assert sandbox.judge("/project/x/tools.py", Access.WRITE).approval is Approval.PRE_APPROVED
    assert sandbox.judge("/project/worker.yaml", Access.READ).approval is Approval.PRE_APPROVED


def test_own_file_that_is_a_link_is_protected_with_what_it_leads_to(
    open_sandbox: OpenSandbox, project: Path
) -> None:
    (project / "real.yaml").write_text("name: w")
    (project / "worker.yaml").symlink_to("real.yaml")
    sandbox = open_sandbox(PROJECT, protected=(project / "worker.yaml",))

    assert sandbox.judge("/project/real.yaml", Access.WRITE).approval is Approval.ASK
    assert sandbox.judge("/project/worker.yaml", Access.DELETE).approval is Approval.ASK


def test_own_folder_protects_what_is_in_it(open_sandbox: OpenSandbox, project: Path) -> None:
    sandbox = open_sandbox(PROJECT, protected=(project / "home-of-forge",))

    (project / "home-of-forge").mkdir()
    (project / "home-of-forge" / "link").symlink_to("../elsewhere")

    assert sandbox.judge("/project/home-of-forge/trust.json", Access.WRITE).approval is Approval.ASK
    assert sandbox.judge("/project/home-of-forge/link", Access.WRITE).approval is Approval.ASK
    assert sandbox.judge("/project/elsewhere", Access.WRITE).approval is Approval.PRE_APPROVED


def test_hard_link_to_an_own_file_is_that_file(open_sandbox: OpenSandbox, project: Path) -> None:
    (project / "worker.yaml").write_text("name: w")
    (project / "same").hardlink_to(project / "worker.yaml")
    sandbox = open_sandbox(PROJECT, protected=(project / "worker.yaml",))

    verdict = sandbox.judge("/project/same", Access.WRITE)

    assert verdict.reason == (
        "it is one of the worker's own files; the file has other names, perhaps outside the zone (hard links)"
    )


def test_hard_links_ask_for_writing_only(permissive: Sandbox, project: Path, root: Path) -> None:
    (project / "hl").hardlink_to(root / "outside" / "secret.txt")

    assert permissive.judge("/project/hl", Access.WRITE).approval is Approval.ASK
    assert permissive.judge("/project/hl", Access.READ).approval is Approval.PRE_APPROVED
    assert permissive.judge("/project/hl", Access.DELETE).approval is Approval.PRE_APPROVED


@pytest.mark.parametrize("path", ["cafe\u0301.txt", "cafe\u0301.d/new.txt", "caf\u200b\u00e9.txt"])
def test_name_that_looks_like_an_existing_one_asks(
    permissive: Sandbox, project: Path, path: str
) -> None:
    (project / "café.txt").write_text("")
    (project / "café.d").mkdir()

    verdict = permissive.judge(f"/project/{path}", Access.WRITE)

    assert verdict.approval is Approval.ASK
    assert "looks the same as the existing 'café." in verdict.reason
    assert permissive.judge("/project/café.txt", Access.WRITE).approval is Approval.PRE_APPROVED


def test_other_spelling_of_a_file_is_the_same_file(permissive: Sandbox, project: Path) -> None:
    (project / "café.txt").write_text("")
    (project / "cafe\u0301.txt").hardlink_to(project / "café.txt")

    assert "looks the same" not in permissive.judge("/project/café.txt", Access.WRITE).reason


def test_blocked_wins_over_what_asks(open_sandbox: OpenSandbox) -> None:
    sandbox = open_sandbox([{"name": "z", "mode": "rw", "approval": {"write": "blocked"}}])

    verdict = sandbox.judge("/z/.git/config", Access.WRITE)

    assert (verdict.approval, verdict.reason) == (Approval.BLOCKED, "zone 'z' blocks write")


def test_verdict_names_every_reason_to_ask(open_sandbox: OpenSandbox) -> None:
    verdict = open_sandbox([{"name": "z", "mode": "rw"}]).judge("/z/.git/config", Access.WRITE)

    assert (
        verdict.reason
        == "writing in zone 'z' needs your OK; '.git' is a protected name: git runs what it names"
    )
    assert verdict.rule == "sandbox.zones.z.approval.write"


@pytest.mark.parametrize("beside", ["worker.yaml", "worker.md", "helper.worker", None])
def test_tools_beside_any_worker_file_ask(
    open_sandbox: OpenSandbox, root: Path, beside: str | None
) -> None:
    (root / "scratch/sub").mkdir()
    if beside:
        (root / "scratch/sub" / beside).touch()
    verdict = open_sandbox().judge("/scratch/sub/tools.py", Access.WRITE)
    assert verdict.approval is (Approval.ASK if beside else Approval.PRE_APPROVED)
