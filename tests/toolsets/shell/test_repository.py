"""Git repositories after a trial: refs, staged changes, and nothing hidden in the git folder.

Covers forge_cli.toolsets.shell.repository.
"""

import subprocess

import pytest

from forge_cli import ApprovalRequest
from forge_cli.core.events import ApprovalRequired
from forge_cli.testing import Project, Seen, call, calls

pytestmark = pytest.mark.needs("overlay")


@pytest.fixture
def repository(project: Project) -> Project:
    project.write("worker.yaml", "name: w\ntoolsets: {shell: {}}\n")
    project.write("a.txt", "one\n")
    project.write("b.txt", "two\n")
    for words in (
        "init -q -b main",
        "config user.name a",
        "config user.email a@b.c",
        "add a.txt b.txt",
    ):
        git(project, *words.split())
    git(project, "commit", "-qm", "first")
    return project


def git(project: Project, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", project.folder, *words],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def run(project: Project, script: str, **options: object) -> Seen:
    """Run a script in a line that names git, and so may write to the repository."""
    project.write("gen.sh", script)
    return project.run(
        calls(call("shell", command="git --version && sh gen.sh")), "done", timeout=120, **options
    )


def request(seen: Seen) -> ApprovalRequest:
    (asked,) = seen.of(ApprovalRequired)
    assert isinstance(asked.request, ApprovalRequest)
    return asked.request


def shown(seen: Seen) -> str:
    preview = request(seen).preview
    assert preview is not None
    return preview.text()


def rows(seen: Seen) -> list[str]:
    found = shown(seen).partition("\n\n")[0].split("\n")
    return [row for row in found if row[8:9] == " " and row[:1] not in " t"]


def test_commit_is_shown_as_a_ref_with_its_changes(repository: Project) -> None:
    old = git(repository, "rev-parse", "--short=7", "HEAD")
    seen = run(
        repository,
        "echo more >> a.txt; rm b.txt; echo new > c.txt; git add -A; git commit -qm x",
        answers=[True],
    )
    new = git(repository, "rev-parse", "--short=7", "HEAD")
    assert rows(seen) == [
        "changed  .git/COMMIT_EDITMSG (2 bytes)",
        "changed  a.txt (9 bytes)",
        "deleted  b.txt",
        f"git      .git refs/heads/main {old}..{new}",
        "git      .git index (3 new files staged, 1 changed file staged, 1 file no longer staged)",
        "git      .git 6 objects, 2 logs",
        "made     c.txt (4 bytes)",
    ]
    text = shown(seen)
    between = f"git diff --stat {old}..{new} (refs/heads/main)\n a.txt | +1 -0\n b.txt | +0 -1\n c.txt | +1 -0\n"
    assert between in text
    assert text.count("+more") == 1, "what is staged is not repeated where the file shows the same"
    assert "PROTECTED" not in text
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "fsck") == ""


def test_staged_changes_are_shown(repository: Project) -> None:
    repository.write("a.txt", "edited before\n")
    repository.write("esc", "\x1b[2J\n")
    seen = run(
        repository,
        "git add a.txt esc; git rm -q --cached b.txt; git update-index --chmod=+x a.txt",
        answers=[False],
    )
    assert [row for row in rows(seen) if "object" not in row] == [
        "git      .git index (1 new file staged, 1 changed file staged, 1 file no longer staged)"
    ]
    text = shown(seen)
    assert "\nstaged a.txt (mode 100644 to 100755)\n--- staged a.txt\n" in text
    assert "\n-one\n+edited before\n" in text
    assert "\n+\\x1b[2J" in text
    assert "\n--- staged b.txt\n+++ /dev/null\n" in text


HIDDEN = """
tree=$(printf '100644 blob %s\\t.github\\n' $(echo evil | git hash-object -w --stdin) | git mktree)
git update-ref refs/heads/side $(git commit-tree -m evil -p HEAD $tree)
git update-index --assume-unchanged a.txt
git branch -D gone
git checkout -q -b topic
git tag v1
"""


def test_changes_of_refs_and_index_are_shown(repository: Project) -> None:
    git(repository, "branch", "gone")
    old = git(repository, "rev-parse", "--short=7", "HEAD")
    seen = run(repository, HIDDEN, answers=[True])
    side = git(repository, "rev-parse", "--short=7", "side")
    found = rows(seen)
    assert found[:5] == [
        "git      .git HEAD refs/heads/main..refs/heads/topic",
        f"git      .git refs/heads/gone {old}..none",
        f"git      .git refs/heads/side none..{side}",
        f"git      .git refs/heads/topic none..{old}",
        f"git      .git refs/tags/v1 none..{old}",
    ]
    assert f"git diff --stat {old}..{side} (refs/heads/side)\n .github | +1 -0\n" in shown(seen)
    assert "\nstaged a.txt (assumed unchanged)" in shown(seen)


def test_packing_changes_no_ref(repository: Project) -> None:
    git(repository, "branch", "side")
    seen = run(repository, "git pack-refs --all; git repack -adq", answers=[True])
    assert [row for row in rows(seen) if " refs/" in row] == []
    assert git(repository, "fsck") == ""


NO_RECORDS = {
    "a file among objects": ("echo evil > .git/objects/run.py", ".git/objects/run.py"),
    "an object with another name": (
        "mkdir -p .git/objects/00; cp .git/objects/??/* .git/objects/00/ 2>/dev/null; "
        "cd .git/objects/00; for f in *; do mv $f $(echo $f | tr 0-9a-f 1-9a-f0); break; done",
        ".git/objects/00/",
    ),
    "an object that gets other contents": (
        "for f in .git/objects/??/*; do chmod 644 $f; echo evil > $f; break; done",
        "changed  .git/objects/",
    ),
    "a link in the place of logs": ("rm -rf .git/logs; ln -s /tmp .git/logs", "replaced .git/logs"),
    "a log that is no log": ("echo evil > .git/logs/HEAD", "changed  .git/logs/HEAD"),
    "a ref that is no ref": ("echo evil > .git/refs/heads/x", "made     .git/refs/heads/x"),
    "a ref that can be started": (
        "cp .git/refs/heads/main .git/refs/x; chmod 755 .git/refs/x",
        "made     .git/refs/x",
    ),
    "no repository": (
        "mkdir -p lib/.git/objects; echo evil > lib/.git/objects/run.py",
        "lib/.git/objects/run.py",
    ),
    "another store of objects": (
        "echo /evil > .git/objects/info/alternates",
        "made     .git/objects/info/alternates",
    ),
    "packed refs that are none": ("echo evil > .git/packed-refs", "made     .git/packed-refs"),
    "an index that is none": ("echo evil > .git/index", "changed  .git/index"),
    "modules": (
        "mkdir -p .git/modules/x/objects; echo evil > .git/modules/x/config",
        "made     .git/modules/x/config",
    ),
    "worktrees": (
        "mkdir -p .git/worktrees/x; echo evil > .git/worktrees/x/HEAD",
        "made     .git/worktrees/x/HEAD",
    ),
}


@pytest.mark.few(4)
@pytest.mark.parametrize(("script", "row"), NO_RECORDS.values(), ids=NO_RECORDS)
def test_unknown_file_in_the_git_folder_is_shown_as_protected(
    repository: Project, script: str, row: str
) -> None:
    seen = run(repository, script, answers=[False])
    (found, *_) = [each for each in rows(seen) if row in each]
    assert "PROTECTED" in found
    assert [offer for offer in request(seen).offers or () if not offer.lasting] == []


def test_programs_named_by_the_repository_are_not_run(repository: Project) -> None:
    for key in (
        "diff.external",
        "core.fsmonitor",
        "diff.evil.textconv",
        "filter.evil.clean",
        "core.pager",
    ):
        git(repository, "config", key, "touch pwned; cat")
    repository.write(".git/info/attributes", "* diff=evil filter=evil\n")
    seen = run(
        repository,
        "t=$(git commit-tree -m x -p HEAD $(git write-tree)); git update-ref HEAD $t",
        answers=[False],
    )
    assert any(" refs/heads/main " in row for row in rows(seen))
    assert not (repository.folder / "pwned").exists()
