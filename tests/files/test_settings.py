"""Settings: empty files, and additions of a project to those of the user.

Covers forge_cli.files.project and forge_cli.files.settings_files.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.errors import WorkerError
from forge_cli.core.events import StatusEvent
from forge_cli.files.home import forge_home
from forge_cli.files.settings import Settings
from forge_cli.files.settings_files import load_settings, untrusted_project
from forge_cli.files.trust import TrustStore
from forge_cli.testing import Project


@pytest.mark.parametrize(
    "text", ["", "\n", "  \n\n", "# nothing yet\n", "---\n# nothing\n...\n", "\ufeff", "#"]
)
def test_empty_file_has_no_settings(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert load_settings(tmp_path) == Settings()


def test_unreadable_user_settings_are_an_error(tmp_path: Path, another_user: None) -> None:
    with pytest.raises(WorkerError) as caught:
        load_settings(tmp_path / "locked")
    assert str(caught.value) == (
        f"{tmp_path}/locked/config.yaml:1:1: it cannot be read: Permission denied\n"
        "  make it readable, or set FORGE_HOME to another folder"
    )


@pytest.fixture
def another_user(tmp_path: Path) -> Iterator[None]:
    """A folder without access, for a user who is bound by its mode."""
    (tmp_path / "locked").mkdir(mode=0)
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user with settings."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("FORGE_HOME", str(home))
    (home / "config.yaml").write_text(
        "model: script:user.yaml\ntrace: summary\nlimits: {max_turns: 20, max_cost: 1.5}\n"
        "approval: {mode: interactive}\naliases: {a: user, b: user}\n"
        "policy: {shell: {rules: [{pattern: git status, approval: preApproved}]}}\n"
    )
    return home


def project_with(tmp_path: Path, text: str, *, trusted: bool = True) -> Path:
    file = tmp_path / "project/.forge/config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if trusted:
        TrustStore(forge_home()).add_file(file)
    return tmp_path / "project"


def test_untrusted_project_has_no_settings(tmp_path: Path, home: Path) -> None:
    project = project_with(tmp_path, "trace: debug\n", trusted=False)
    assert load_settings(home, project).trace == "summary"
    assert untrusted_project(home, project) == project / ".forge/config.yaml"
    TrustStore(forge_home()).add_file(project / ".forge/config.yaml")
    assert load_settings(home, project).trace == "debug"
    assert untrusted_project(home, project) is None
    (project / ".forge/config.yaml").write_text("trace: quiet\n")
    assert load_settings(home, project).trace == "summary"


def test_settings_of_user_and_project_are_merged(tmp_path: Path, home: Path) -> None:
    project = project_with(
        tmp_path,
        "model: script:project.yaml\nlimits: {max_turns: 50, max_cost: 1, max_time: 9}\n"
        "approval: {mode: auto_deny}\naliases: {b: project, c: project}\n"
        "policy: {shell: {rules: [{pattern: git, approval: ask}]}}\n",
    )
    found = load_settings(home, project)
    assert (found.model, found.trace, found.approval.mode) == (
        "script:project.yaml",
        "summary",
        ApprovalMode.AUTO_DENY,
    )
    limits = found.limits
    assert (limits.max_turns, limits.max_cost, limits.max_time, limits.max_tokens) == (
        20,
        1,
        9,
        None,
    )
    assert found.aliases == {"a": "user", "b": "project", "c": "project"}
    rules = found.section("policy", "shell")["rules"]
    assert [rule["pattern"] for rule in rules] == ["git", "git status"]
    file = project / ".forge/config.yaml"
    assert str(limits.where("max_cost")) == f"{file}:2:35"
    assert str(limits.where("max_turns")) == f"{home}/config.yaml:3:21"
    assert str(found.where("policy", "shell", "rules", 1)) == f"{home}/config.yaml:6:26"
    assert str(found.where("aliases", "c")) == f"{file}:4:26"


def test_project_cannot_loosen_the_mode(tmp_path: Path, home: Path) -> None:
    (home / "config.yaml").write_text("approval: {mode: auto_deny}\n")
    project = project_with(tmp_path, "approval: {mode: interactive}\n")
    assert load_settings(home, project).approval.mode is ApprovalMode.AUTO_DENY


def test_project_cannot_allow_servers_more_than_the_user(tmp_path: Path, home: Path) -> None:
    (home / "config.yaml").write_text("mcp: {sampling: false}\n")
    found = load_settings(home, project_with(tmp_path, "mcp: {elicitation: false}\n")).mcp
    assert (found.sampling, found.elicitation) == (False, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("approval: {mode: approve_all}", "1:18: approval.mode: a project cannot approve calls"),
        ("import_timeout: 60", "1:17: import_timeout: it depends on the machine"),
        (
            "policy: {shell: {rules: [{pattern: a, approval: preApproved}]}}",
            r"1:26: policy.shell.rules\[0\]: a project.s rule",
        ),
        (
            "policy: {shell: {rules: [{pattern: a}]}}",
            r"policy.shell.rules\[0\]: a project's rule needs",
        ),
        (
            "policy: {shell: {default: preApproved}}",
            "policy.shell.default: a project can only add rules",
        ),
        ("modle: x", "unknown key 'modle'; did you mean 'model'"),
    ],
)
def test_project_settings_that_loosen_are_refused(
    tmp_path: Path, home: Path, text: str, problem: str
) -> None:
    with pytest.raises(WorkerError, match=problem):
        load_settings(home, project_with(tmp_path, text))


def test_home_of_the_user_is_not_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_HOME", str(tmp_path / ".forge"))
    (tmp_path / ".forge").mkdir()
    (tmp_path / ".forge/config.yaml").write_text("approval: {mode: approve_all}\n")
    assert load_settings(tmp_path / ".forge", tmp_path).approval.mode is ApprovalMode.APPROVE_ALL
    assert untrusted_project(tmp_path / ".forge", tmp_path) is None


WORKER = """
name: w
toolsets: {shell: {rules: [{pattern: make, approval: preApproved}, {pattern: ls, approval: preApproved}]}}
"""


def test_rules_of_a_project_tighten_those_of_a_worker(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write("worker.yaml", WORKER)
    file = project.write(
        ".forge/config.yaml", "policy: {shell: {rules: [{pattern: make, approval: blocked}]}}\n"
    )

    def verdict(command: str) -> Any:
        done = project.forge("approve", "worker.yaml", "shell", f"command={command}", "--json")
        return json.loads(done.stdout)

    assert verdict("make")["verdict"] == "preApproved"
    with monkeypatch.context() as patch:
        patch.setenv("FORGE_HOME", str(project.home))
        TrustStore(forge_home()).add_file(file)
    judged = verdict("make")
    assert (judged["verdict"], judged["where"]) == ("blocked", f"{file}:1:26")
    assert verdict("ls")["verdict"] == "preApproved"


def test_untrusted_project_is_reported(project: Project) -> None:
    project.write("worker.yaml", "name: w\n")
    file = project.write(".forge/config.yaml", "trace: quiet\n")
    seen = project.run("Hello.")
    assert [event.message for event in seen.of(StatusEvent) if event.level == "warning"] == [
        f"{file} ignored: you have not trusted this folder. Run: forge trust"
    ]
