"""A changed time alone of a file that git ignores is no effect of a trial.

Covers forge_cli.sandbox.git.ignored_files, forge_cli.sandbox.git.index.
"""

import os
import subprocess
from pathlib import Path

import pytest

from forge_cli.core.trial import CommandTried
from forge_cli.sandbox.git.ignored_files import IgnoredFiles
from forge_cli.testing import Project, call, calls

IGNORE = "*.log\n!keep.log\n/build/\n*.tmp/\n# *.py\nsub/only\n\\!odd\ntracked.o\n"
FILES = (
    *(
        "a.log",
        "keep.log",
        "build/x",
        "sub/build/x",
        "sub/a.log",
        "sub/only",
        "only",
        "t.tmp/in/x",
        "t.tmp.d/x",
    ),
    *(
        "!odd",
        "a.py",
        "tracked.o",
        "other.o",
        "excluded.x",
        "sub/more/own.y",
        "own.y",
        "sub/more/b.log",
        "new\nline.log",
    ),
)


@pytest.fixture
def repository(project: Project) -> Path:
    for name in FILES:
        project.write(name, "x\n")
    project.write(".gitignore", IGNORE)
    project.write("sub/more/.gitignore", "*.y\n!b.log\n")
    for line in ("git init -q", "git add -f tracked.o a.py"):
        subprocess.run(line.split(), cwd=project.folder, check=True)
    (project.folder / ".git/info/exclude").write_text("*.x\n")
    return project.folder


def test_ignored_files_are_those_of_git(repository: Path) -> None:
    ignored = IgnoredFiles()
    found = {name for name in FILES if repository / name in ignored}
    names = "\0".join(FILES).encode()
    asked = subprocess.run(
        ["git", "check-ignore", "-z", "--stdin"],
        cwd=repository,
        input=names,
        capture_output=True,
        check=True,
    )
    assert found == set(os.fsdecode(asked.stdout).split("\0")) - {""}
    assert {"a.log", "build/x", "sub/only", "t.tmp/in/x", "excluded.x", "sub/more/own.y"} <= found
    assert not {"keep.log", "tracked.o", "a.py", "sub/more/b.log", "own.y"} & found


def test_ignored_files_exist_only_in_repositories(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    assert tmp_path / "a.log" not in IgnoredFiles()
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert tmp_path / "a.log" not in IgnoredFiles()


OUTCOMES = [
    ("touch a.log build/x", "noEffect"),
    ("touch -d 2001-01-01 a.log", "noEffect"),
    ("cp a.log c.tmp && cat c.tmp > a.log && rm c.tmp", "noEffect"),
    ("touch a.log keep.log", "effects"),
    ("touch tracked.o", "effects"),
    ("echo more >> a.log", "effects"),
    ("chmod 600 a.log", "effects"),
    ("touch new.log", "effects"),
    ("rm a.log", "effects"),
    ("ln a.log b.log", "effects"),
]


@pytest.mark.few(5)
@pytest.mark.needs("overlay")
@pytest.mark.parametrize(("line", "outcome"), OUTCOMES)
def test_changed_time_alone_is_no_effect(
    project: Project, repository: Path, line: str, outcome: str
) -> None:
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {}}\n")
    project.write("gen.sh", line)
    seen = project.run(
        calls(call("shell", command="sh gen.sh")), "done", timeout=120, answers=[False]
    )
    assert [each.outcome for each in seen.of(CommandTried)] == [outcome]
