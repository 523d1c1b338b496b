"""A grant from a trial allows later trials with the same effects, and deletes nothing else.

Covers forge_cli.core.trial, forge_cli.engine.gate.grants.
"""

import subprocess

import pytest

from forge_cli import ApprovalDecision, ApprovalRequest
from forge_cli.core.events import ApprovalRequired
from forge_cli.core.trial import CommandTried
from forge_cli.testing import Project, Seen, call, calls
from forge_cli.ui.terminal.grants import session_offers

pytestmark = pytest.mark.needs("overlay")

WORKER = """
name: w
toolsets: {shell: {}, filesystem: {}}
sandbox: {zones: [{name: code, path: ., mode: rw, approval: {write: preApproved}}]}
"""
FIRST = "mkdir -p out; echo one > out/a; echo two > log; rm -f junk"


@pytest.fixture
def shell(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    for name in ("log", "junk", "src/app.py", "out2/a", "kept"):
        project.write(name, "before\n")
    return project


def run(
    project: Project, first: str, then: str, *, below: bool = False, command: str = "sh gen.sh"
) -> Seen:
    """Grant a line at its trial, change its script, and call it again; a second question is answered with no."""
    asked: list[ApprovalRequest] = []
    project.write("gen.sh", first)

    def answer(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        if len(asked) > 1:
            return ApprovalDecision(False)
        offers = [offer for offer in request.offers or () if bool(offer.below) is below]
        return ApprovalDecision(True, remember="session", grant=offers[0])

    line = calls(call("shell", command=command))
    rewrite = calls(call("write_file", path="gen.sh", content=then))
    return project.run(line, rewrite, line, "done", approval_callback=answer, timeout=120)


def questions(seen: Seen) -> int:
    return len(seen.of(ApprovalRequired))


WITHIN = [
    FIRST,
    "true",
    "echo other > out/a; echo other > log",
    "echo b > out/b; mkdir -p out/deep/er; echo c > out/deep/er/c",
    "echo three > log; chmod 600 log",
    "ln -s nowhere out/link",
    "touch log",
]


@pytest.mark.parametrize("then", WITHIN)
def test_line_with_granted_effects_is_applied_without_asking(shell: Project, then: str) -> None:
    seen = run(shell, FIRST, then)
    assert questions(seen) == 1
    assert [each.outcome for each in seen.of(CommandTried) if not each.applied][-1] in (
        "effects",
        "noEffect",
    )


BEYOND = [
    "echo x > src/app.py",
    "echo x >> kept",
    "echo x > new",
    "mkdir new",
    "echo x > out2/b",
    "echo x > output",
    "rm kept",
    "rm log",
    "rm -r out",
    "rm out/a",
    "mv out/a out/b",
    "mv kept out/kept",
    "rm log; ln -s /etc/passwd log",
    "rm log; mkdir log; echo x > log/in",
    "echo T=1 > out/.env",
    "mkdir -p out/.git/hooks; echo x > out/.git/hooks/pre-commit",
    "echo x > out/worker.yaml",
    "echo three > log; bash -c ': < /dev/tcp/127.0.0.1/9'; true",
    "chmod 700 .",
    "chmod +x src/app.py",
    "touch kept",
    "ln kept out/kept",
    "mkfifo pipe",
    "rm gen.sh",
]


@pytest.mark.few(10)
@pytest.mark.parametrize("then", BEYOND)
def test_line_with_further_effects_asks_again(shell: Project, then: str) -> None:
    seen = run(shell, FIRST, f"echo later > out/a\n{then}")
    assert questions(seen) == 2
    assert (shell.folder / "out/a").read_text() == "one\n"
    assert (shell.folder / "kept").read_text() == "before\n"
    assert (shell.folder / "src/app.py").read_text() == "before\n"


FOLDER_WITHIN = [
    "echo x > out2/b",
    "rm out2/new",
    "mv out2/new out2/newer",
    "rm -r out2/sub",
    "echo x > out2/a",
]
FOLDER_BEYOND = [
    "rm out2/a",
    "rm -r out2",
    "mv out2/a out2/c",
    "mv out2/a kept",
    "rm out2/a; mkdir out2/a",
    "rm kept",
]


@pytest.mark.parametrize("then", FOLDER_WITHIN)
def test_folder_grant_covers_new_files(shell: Project, then: str) -> None:
    seen = run(shell, "mkdir out2/sub; echo n > out2/new; echo n > out2/sub/in", then, below=True)
    assert questions(seen) == 1


@pytest.mark.parametrize("then", FOLDER_BEYOND)
def test_folder_grant_does_not_cover_deletion_of_older_files(shell: Project, then: str) -> None:
    seen = run(shell, "mkdir out2/sub; echo n > out2/new; echo n > out2/sub/in", then, below=True)
    assert questions(seen) == 2
    assert (shell.folder / "out2/a").read_text() == "before\n"


def test_folder_grant_covers_a_shown_deletion(shell: Project) -> None:
    seen = run(shell, "echo n > out2/new; rm -f out2/a", "rm -f out2/a", below=True)
    assert questions(seen) == 1


def test_line_grant_without_a_commit_does_not_cover_one(shell: Project) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -qam y"
    for line in ("git init -q", "git add -A", commit):
        subprocess.run(line.split(), cwd=shell.folder, check=True)
    line = "git status --short; sh gen.sh"
    seen = run(shell, "echo one > log", f"{commit}; echo one > log", command=line)
    assert questions(seen) == 2


@pytest.mark.parametrize("script", ["echo T=1 > .env", "bash -c ': < /dev/tcp/127.0.0.1/9'; true"])
def test_no_grant_is_offered_if_it_would_have_no_effect(shell: Project, script: str) -> None:
    """A protected name, and a trial that lacked something; neither is called an offer that would do nothing."""
    shell.write("gen.sh", script)
    line = "sh gen.sh; $EDITOR"
    seen = shell.run(
        calls(call("shell", command=line)),
        "done",
        approval_callback=lambda _: ApprovalDecision(False),
    )
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    assert (asked.request.offers, asked.request.once) == (None, True)
    assert list(session_offers(asked.request)) == []
