"""The rules of a worker in another folder: links and folders that the worker may write to are looked at as files.

Covers forge_cli.bashrules.allow.folders, forge_cli.bashrules.sets.secrets.
"""

import os
import subprocess

import pytest

from forge_cli.core.events import ApprovalDecided
from forge_cli.testing import Project, call, calls

WORKER = """
name: w
sandbox:
  isolation: off
  zones:
    - {name: here, path: ., mode: rw}
    - {name: scratch, mode: rw, approval: {write: preApproved}}
toolsets:
  shell:
    rules:
      - {pattern: cd, approval: preApproved}
      - {pattern: cat, approval: preApproved}
      - {pattern: git, approval: preApproved}
      - {pattern: ./run.sh, approval: preApproved}
      - {pattern: pytest, approval: preApproved}
"""


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("command", "approval"),
    [
        ("cd src && cat a.txt", "preApproved"),
        ("cd src/deep && cat b.txt", "preApproved"),
        ("cd src; cd deep; cat b.txt", "preApproved"),
        ("cd src; cat a.txt; cd ..; cat a.txt", "preApproved"),
        ("cd src && cat a.txt && cd .. && cat a.txt", "preApproved"),
        ("cd src/deep; cd ../..; cat a.txt", "preApproved"),
        ("cd ..; cat a.txt", "ask"),
        ("cd src; cd ../..; cat a.txt", "ask"),
        ("cd missing; cd ..; cat a.txt", "ask"),
        ("false && cd src; cd ..; cat a.txt", "ask"),
        ("(cd src); cd ..; cat a.txt", "ask"),
        ("cd src | cat; cd ..; cat a.txt", "ask"),
        ("cd src & cd ..; cat a.txt", "ask"),
        ("cd src > scratch/x; cd ..; cat a.txt", "ask"),
        ("git checkout x; cd src; cd ..; cat a.txt", "ask"),
        ("cd link; cd ..; cat a.txt", "ask"),
        ("for d in src; do cd $d; cd ..; done; cat a.txt", "ask"),
        ("cd link && cat a.txt", "ask"),
        ("cd src/link && cat a.txt", "ask"),
        ("cd away && cat etc/hostname", "ask"),
        ("cd missing; cat a.txt", "ask"),
        ("cd scratch && cat a.txt", "ask"),
        ("cd scratch && ./run.sh", "ask"),
        ("cd src && ./run.sh", "ask"),
        ("git -C link status", "ask"),
        ("git -C scratch status", "ask"),
        ("git -C src status", "preApproved"),
        ("cd {here} && ./run.sh", "preApproved"),
        ("cd {here}/src && cat a.txt", "preApproved"),
        ("cd src; cd {here}; ./run.sh", "preApproved"),
        ("git -C {here} status", "ask"),
        ("cd {here}/src && ./run.sh", "ask"),
        ("cd {here}/link && cat a.txt", "ask"),
        ("cd {here}/.. && cat a.txt", "ask"),
        ("cd {here}x && cat a.txt", "ask"),
        ("cd src -- && cat a.txt", "ask"),
    ],
)
def test_rules_apply_to_lines_that_change_the_folder(
    project: Project, command: str, approval: str
) -> None:
    project.write("worker.yaml", WORKER)
    for name in ("src/a.txt", "src/deep/b.txt", "scratch/a.txt"):
        project.write(name, "text")
    for name, target in (("link", "src"), ("src/link", "deep"), ("away", "/")):
        (project.folder / name).symlink_to(target)
    seen = project.run(
        calls(call("shell", command=command.replace("{here}", str(project.folder)))), "done"
    )
    assert [event.verdict for event in seen.of(ApprovalDecided)] == [approval]


def test_link_created_by_the_line_is_not_written_through(project: Project) -> None:
    rules = (
        "[{pattern: git checkout, approval: preApproved}, {pattern: echo, approval: preApproved}]"
    )
    project.write(
        "worker.yaml",
        f"{WORKER.partition('toolsets:')[0]}toolsets: {{shell: {{rules: {rules}}}}}\n",
    )
    project.write("scratch/a.txt", "text")
    commands = "git init -q; git add scratch; git commit -qm a; git checkout -qb evil; ln -s ../.git/hooks scratch/sub; "
    commands += "git add scratch; git commit -qm b; git checkout -q -"
    identity = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    subprocess.run(
        ["bash", "-ec", commands], cwd=project.folder, env={**os.environ, **identity}, check=True
    )
    lines = [
        "git checkout -q evil; echo id > scratch/sub/post-checkout",
        "git checkout -q evil",
        "echo id > scratch/b",
    ]
    seen = project.run(*(calls(call("shell", command=line)) for line in lines), "done")
    verdicts = [event.verdict for event in seen.of(ApprovalDecided)]
    assert verdicts == ["ask", "preApproved", "preApproved"]
    assert not (project.folder / ".git/hooks/post-checkout").exists()


@pytest.mark.long
def test_file_written_without_asking_does_not_run_without_asking(project: Project) -> None:
    project.write("worker.yaml", WORKER)
    for name in ("tests/test_a.py", "scratch/test_x.py"):
        project.write(name, "text")
    (project.folder / "tests/link").symlink_to("../scratch")
    (project.folder / "tests/test_l.py").symlink_to("../scratch/test_x.py")
    expected = {
        "pytest": "preApproved",
        "pytest tests/test_a.py": "preApproved",
        "pytest scratch/test_x.py": "ask",
        "pytest tests/link/test_x.py": "ask",
        "pytest tests/test_l.py": "ask",
        "cat tests/link/test_x.py": "preApproved",
        "cat scratch/test_x.py": "preApproved",
        "git add scratch/test_x.py": "preApproved",
    }
    seen = project.run(*(calls(call("shell", command=line)) for line in expected), "done")
    assert (
        dict(zip(expected, (event.verdict for event in seen.of(ApprovalDecided)), strict=True))
        == expected
    )


@pytest.mark.parametrize(
    ("settings", "approval"),
    [
        ("[core]\n\thooksPath = scratch/hooks\n", "ask"),
        ('[core] HooksPath = "./scratch"\n', "ask"),
        ("[include]\n\tpath = more\n", "ask"),
        ("[core]\n\thooksPath = src/hooks\n", "preApproved"),
        ("", "preApproved"),
    ],
)
def test_hook_written_without_asking_does_not_run_without_asking(
    project: Project, settings: str, approval: str
) -> None:
    project.write("worker.yaml", WORKER)
    project.write("scratch/a.txt", "text")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    with (project.folder / ".git/config").open("a") as config:
        config.write(settings)
    (project.folder / ".git/more").write_text("[core]\n\thooksPath = scratch\n")
    lines = ["git commit --allow-empty -m x", "timeout 5 git status", "git status"]
    seen = project.run(*(calls(call("shell", command=line)) for line in lines), "done")
    assert [event.verdict for event in seen.of(ApprovalDecided)] == [approval, "ask", "preApproved"]
