"""Applying a draft gives the same tree as working on the real files.

Covers forge_cli.sandbox.drafts.changes, forge_cli.sandbox.drafts.view,
forge_cli.sandbox.drafts.copies, forge_cli.sandbox.changes.copied.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge_cli.sandbox.drafts.changes import apply_draft, read_draft
from forge_cli.sandbox.drafts.copies import copy_zones
from forge_cli.sandbox.drafts.draft import drop_draft, new_draft
from forge_cli.sandbox.drafts.view import enter_view

pytestmark = [pytest.mark.needs("overlay")]

NAMES = st.sampled_from(
    ["a", "b", "c", "d/a", "d/b", "d/e/a", "f", "ü", "two words", "line\nbreak"]
)
FOLDERS = st.sampled_from(["d", "d/e", "g", "f"])
EARLIER = st.one_of(
    st.tuples(st.just("write"), NAMES, st.text(max_size=20)),
    st.tuples(st.just("append"), NAMES, st.text(max_size=20)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.just("delete"), FOLDERS),
    st.tuples(st.just("make"), FOLDERS),
    st.tuples(st.just("move"), NAMES, NAMES),
    st.tuples(st.just("move"), FOLDERS, FOLDERS),
    st.tuples(st.just("mode"), NAMES, st.sampled_from([0o600, 0o644, 0o755])),
    st.tuples(st.just("link"), NAMES, NAMES),
)
"""Steps before the draft. An overlay separates the names of a file that has several by then."""
STEPS = st.one_of(EARLIER, st.tuples(st.just("second name"), NAMES, NAMES))


def carry_out(steps: Sequence[tuple[Any, ...]], folder: Path) -> None:
    """Carry out the possible steps; a step that fails in a folder fails in its view as well."""
    for what, name, *more in steps:
        path = folder / name
        with suppress(OSError, shutil.Error):
            match what:
                case "write":
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(more[0])
                case "append":
                    with path.open("a") as file:
                        file.write(more[0])
                case "delete":
                    shutil.rmtree(
                        path
                    ) if path.is_dir() and not path.is_symlink() else path.unlink()
                case "make":
                    path.mkdir(parents=True, exist_ok=True)
                case "move":
                    if (
                        not (folder / more[0]).exists()
                        and folder / name not in (folder / more[0]).parents
                    ):
                        shutil.move(path, folder / more[0])
                case "mode":
                    path.chmod(more[0], follow_symlinks=True)
                case "link":
                    path.symlink_to(more[0])
                case "second name":
                    os.link(folder / more[0], path)


def tree(folder: Path) -> dict[str, tuple[int, bytes | str | None]]:
    found: dict[str, tuple[int, bytes | str | None]] = {}
    for path in sorted(folder.rglob("*")):
        content: bytes | str | None = None
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def in_draft(
    steps: Sequence[tuple[Any, ...]], folder: Path, drafts: Path, *, copies: bool = False
) -> None:
    """Do the steps in a draft of a folder, and apply it."""
    os.environ["FORGE_DRAFTS"] = str(drafts)
    draft = new_draft("d", "test", folder, folder, [("zone", folder)])
    if copies:
        draft = copy_zones(draft, "a test wants it")
    child = os.fork()
    if not child:
        code = 1
        try:
            enter_view(draft)
            carry_out(steps, draft.seen_path(folder))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0
    changed = read_draft(draft)
    assert changed.conflicts == []
    if changed.changes:
        apply_draft(changed, changed.changes)
    drop_draft(draft)


@pytest.mark.parametrize("copies", [False, True])
@settings(max_examples=min(settings().max_examples, 100))
@given(before=st.lists(EARLIER, max_size=8), steps=st.lists(STEPS, max_size=12))
def test_applied_draft_equals_the_plain_run(
    copies: bool,
    before: list[Any],
    steps: list[Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    place = tmp_path_factory.mktemp("fidelity")
    for name in ("plain", "drafted"):
        (place / name).mkdir()
        carry_out(before, place / name)
    carry_out(steps, place / "plain")
    in_draft(steps, place / "drafted", place / "drafts", copies=copies)
    assert tree(place / "drafted") == tree(place / "plain")
    shutil.rmtree(place)


GIT = """
git init -q . && git config user.email a@b && git config user.name a
echo one > one; git add -A; git commit -qm one
"""
IN_DRAFT = """
git checkout -q -b side && echo two > two && git add -A && git commit -qm two
git stash -q 2>/dev/null; git checkout -q - && git merge -q --no-edit side && mkdir -p sub && mv one sub/ && git add -A
git commit -qm moved && git branch -d -q side && git gc -q
"""


@pytest.mark.needs("git")
def test_commits_of_an_applied_draft_are_those_of_the_plain_run(tmp_path: Path) -> None:
    fixed = {f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
    env = {**os.environ, **fixed}
    for name in ("plain", "drafted"):
        (tmp_path / name).mkdir()
        subprocess.run(["bash", "-c", GIT], cwd=tmp_path / name, env=env, check=True, timeout=60)
    subprocess.run(
        ["bash", "-c", IN_DRAFT], cwd=tmp_path / "plain", env=env, check=True, timeout=60
    )
    os.environ["FORGE_DRAFTS"] = str(tmp_path / "drafts")
    folder = tmp_path / "drafted"
    draft = new_draft("d", "test", folder, folder, [("zone", folder)])
    child = os.fork()
    if not child:
        enter_view(draft)
        done = subprocess.run(["bash", "-c", IN_DRAFT], cwd=folder, env=env, check=False)
        os._exit(done.returncode)
    assert os.waitpid(child, 0)[1] == 0
    changed = read_draft(draft)
    apply_draft(changed, changed.changes)
    told = []
    for name in ("plain", "drafted"):
        command = "git log --format=%H --all && git status --short && git fsck --strict && cat two sub/one"
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path / name, capture_output=True, text=True, check=True
        )
        told.append(done.stdout)
    assert told[0] == told[1]
