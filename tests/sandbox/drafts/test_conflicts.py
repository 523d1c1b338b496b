"""A file that changed both in a draft and outside of it is found, however it was changed.

Covers forge_cli.sandbox.drafts.start, forge_cli.sandbox.drafts.conflicts,
forge_cli.sandbox.drafts.merge, forge_cli.sandbox.git.index.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.core.errors import ForgeError
from forge_cli.sandbox.changes.path_changes import PathChange
from forge_cli.sandbox.drafts.changes import apply_draft, read_draft, renew_start
from forge_cli.sandbox.drafts.conflicts import ConflictChoice, merge_of, settle_conflicts
from forge_cli.sandbox.drafts.draft import new_draft
from forge_cli.sandbox.drafts.merge import merge_versions, staged_content
from forge_cli.sandbox.drafts.start import StartState

from .drafted import begin, conflicts_of, work_in

pytestmark = pytest.mark.needs("overlay")

CHANGED, MADE = "was changed since the draft began", "was made since the draft began"
DELETED, REPLACED = "was deleted since the draft began", "was replaced since the draft began"


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    zone = tmp_path / "zone"
    for name in ("a", "b", "d/a", "d/b"):
        (zone / name).parent.mkdir(parents=True, exist_ok=True)
        (zone / name).write_text(f"one {name}\n")
    return zone


def write_all(zone: Path) -> None:
    """Change a file on the top and one in a folder, and make one of each."""
    for name in ("a", "d/a", "new", "d/new"):
        (zone / name).write_text("draft\n")


def restore_times(path: Path, change: Callable[[Path], object]) -> None:
    info = path.stat()
    change(path)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def swap_folder(zone: Path) -> None:
    """Put another folder in place whose files have the old names, sizes and times."""
    shutil.copytree(zone / "d", zone.parent / "other")
    (zone / "d").rename(zone.parent / "away")
    (zone.parent / "other").rename(zone / "d")


ELSEWHERE: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "nothing": (lambda zone: None, {}),
    "other files": (lambda zone: (zone / "b").write_text("mine\n"), {}),
    "a file beside": (lambda zone: (zone / "d/mine").write_text("mine\n"), {}),
    "edited": (lambda zone: (zone / "a").write_text("mine\n"), {"a": CHANGED}),
    "edited, old size and time": (
        lambda zone: restore_times(zone / "a", lambda path: path.write_text("two a\n")),
        {"a": CHANGED},
    ),
    "replaced, old size and time": (
        lambda zone: (
            shutil.copy2(zone / "a", zone / "c"),
            restore_times(zone / "c", lambda path: path.write_text("two a\n")),
            (zone / "c").rename(zone / "a"),
        ),
        {"a": CHANGED},
    ),
    "mode": (lambda zone: (zone / "a").chmod(0o755), {"a": CHANGED}),
    "deleted": (lambda zone: (zone / "a").unlink(), {"a": DELETED}),
    "made": (lambda zone: (zone / "new").write_text("mine\n"), {"new": MADE}),
    "the same made": (lambda zone: (zone / "new").write_text("draft\n"), {}),
    "the same edit": (lambda zone: (zone / "a").write_text("draft\n"), {}),
    "a link instead": (
        lambda zone: ((zone / "a").unlink(), (zone / "a").symlink_to("b")),
        {"a": CHANGED},
    ),
    "a folder instead": (
        lambda zone: ((zone / "a").unlink(), (zone / "a").mkdir()),
        {"a": REPLACED},
    ),
    "folder deleted": (
        lambda zone: shutil.rmtree(zone / "d"),
        {
            "d": DELETED,
            "d/a": DELETED,
            "d/new": "is in a folder that was deleted or replaced since the draft began",
        },
    ),
    "folder replaced": (swap_folder, {"d/a": CHANGED}),
    "folder replaced by a link": (
        lambda zone: ((zone / "d").rename(zone / "e"), (zone / "d").symlink_to("e")),
        {
            "d": REPLACED,
            "d/a": DELETED,
            "d/new": "is in a folder that was deleted or replaced since the draft began",
        },
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_change_elsewhere_is_a_conflict_only_if_it_touches_the_same_files(
    name: str, zone: Path, tmp_path: Path
) -> None:
    draft = begin(zone, tmp_path / "drafts")
    work_in(draft, lambda: write_all(zone))
    change, expected = ELSEWHERE[name]
    change(zone)
    changed = read_draft(draft)
    assert conflicts_of(changed, zone) == expected
    rest = [each for each in changed.changes if not each.conflict]
    if rest:
        apply_draft(changed, rest)
    assert conflicts_of(read_draft(draft), zone) == expected


def test_conflict_without_a_record_of_the_start_is_found_by_its_time(
    zone: Path, tmp_path: Path
) -> None:
    draft = begin(zone, tmp_path / "drafts")
    (draft.place / "start").unlink()
    work_in(draft, lambda: write_all(zone))
    assert conflicts_of(read_draft(draft), zone) == {}
    restore_times(zone / "a", lambda path: path.write_text("two a\n"))
    assert conflicts_of(read_draft(draft), zone) == {"a": CHANGED}


def test_deleted_folder_with_new_files_of_somebody_else_is_kept(zone: Path, tmp_path: Path) -> None:
    draft = begin(zone, tmp_path / "drafts")
    work_in(draft, lambda: shutil.rmtree(zone / "d"))
    (zone / "d/mine").write_text("mine\n")
    changed = read_draft(draft)
    assert conflicts_of(changed, zone) == {
        "d": "contains files that were changed since the draft began",
        "d/mine": MADE,
    }
    apply_draft(changed, [each for each in changed.changes if not each.conflict])
    assert sorted(os.listdir(zone / "d")) == ["mine"]


LINES = "".join(f"line {number}\n" for number in range(9))


def edited(zone: Path, first: str = "", last: str = "") -> None:
    text = LINES.replace("line 0", first or "line 0").replace("line 8", last or "line 8")
    (zone / "a").write_text(text)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ConflictChoice.DRAFT, (None, "draft")),
        (ConflictChoice.MINE, ("mine", None)),
        (ConflictChoice.MERGE, ("mine", "draft")),
    ],
)
@pytest.mark.needs("git")
def test_settled_conflict_is_applied_as_chosen(
    choice: ConflictChoice, expected: tuple[str, str], zone: Path, tmp_path: Path
) -> None:
    (zone / "a").write_text(LINES)
    draft = begin(zone, tmp_path / "drafts")
    work_in(draft, lambda: edited(zone, last="draft"))
    edited(zone, first="mine")
    changed = read_draft(draft, base=lambda change: LINES.encode())
    assert conflicts_of(changed, zone) == {"a": CHANGED}
    settle_conflicts(changed, changed.conflicts, choice)
    changed = read_draft(draft)
    assert changed.conflicts == []
    if changed.changes:
        apply_draft(changed, changed.changes)
    settled = (zone / "a").read_text()
    edited(zone, *(each or "" for each in expected))
    assert settled == (zone / "a").read_text()


@pytest.mark.needs("git")
def test_overlapping_or_binary_changes_are_not_merged(zone: Path, tmp_path: Path) -> None:
    (zone / "a").write_text(LINES)
    draft = begin(zone, tmp_path / "drafts")
    work_in(draft, lambda: edited(zone, first="draft"))
    edited(zone, first="mine")
    changed = read_draft(draft, base=lambda change: LINES.encode())
    merge = merge_of(changed, changed.changes[0])
    assert merge is not None
    assert merge.overlaps == 1
    assert b"<<<<<<< real file\nmine\n||||||| start of the draft\nline 0\n" in merge.content
    with pytest.raises(ForgeError, match="both sides changed the same lines in 1 place"):
        settle_conflicts(changed, changed.conflicts, ConflictChoice.MERGE)
    without = read_draft(draft)
    with pytest.raises(ForgeError, match="its content at the start is not known"):
        settle_conflicts(without, without.conflicts, ConflictChoice.MERGE)
    assert conflicts_of(read_draft(draft), zone) == {"a": CHANGED}
    assert merge_versions(b"\0one", b"\0two", b"\0three") is None


def test_restored_content_is_no_conflict(zone: Path, tmp_path: Path) -> None:
    draft = begin(zone, tmp_path / "drafts")
    work_in(draft, lambda: write_all(zone))
    (zone / "a").write_text("mine\n")
    (zone / "a").write_text("one a\n")
    assert conflicts_of(read_draft(draft), zone) == {"a": CHANGED}
    assert conflicts_of(read_draft(draft, base=lambda change: b"one a\n"), zone) == {}


@pytest.mark.needs("git")
@pytest.mark.parametrize("version", [2, 4])
def test_start_of_a_tracked_file_is_known_by_git(version: int, zone: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        os.utime(zone / name, (1, 1))
    for command in (
        ("init", "-q"),
        ("config", "index.version", str(version)),
        ("add", "."),
    ):
        subprocess.run(["git", *command], cwd=zone, check=True, timeout=60)
    (zone / "b").write_text("not staged\n")
    draft = begin(zone, tmp_path / "drafts")
    (zone / "a").write_text("mine\n")
    subprocess.run(["git", "add", "."], cwd=zone, check=True, timeout=60)

    def start_of(name: str) -> bytes | None:
        change = PathChange(str(zone), (name,), None, None)
        staged = StartState.load(draft.place).staged_at_start(draft.place, change)
        return staged and staged_content(zone, staged.object)

    assert (start_of("a"), start_of("b"), start_of("c")) == (b"one a\n", None, None)


def test_names_that_are_no_text_are_compared(tmp_path: Path) -> None:
    zone = tmp_path / "zone"
    zone.mkdir()
    odd = zone / os.fsdecode(b"line\nbreak \xff")
    odd.write_text("one\n")
    draft = begin(zone, tmp_path / "drafts")
    work_in(draft, lambda: odd.write_text("draft\n"))
    assert read_draft(draft).conflicts == []
    odd.write_text("mine\n")
    assert [each.conflict for each in read_draft(draft).conflicts] == [CHANGED]


def test_large_zone_is_not_recorded(
    zone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forge_cli.sandbox.drafts.start.MAX_ENTRIES", 3)
    monkeypatch.setenv("FORGE_DRAFTS", str(tmp_path / "drafts"))
    draft = new_draft("d", "test", zone, zone, [("zone", zone)])
    assert StartState.load(draft.place).zones == {}


def test_later_session_in_a_draft_starts_from_the_real_files_of_then(
    zone: Path, tmp_path: Path
) -> None:
    draft = begin(zone, tmp_path / "drafts")
    work_in(draft, lambda: (zone / "a").write_text("draft\n"))
    for name in ("a", "b"):
        (zone / name).write_text("mine\n")
    renew_start(draft)
    work_in(draft, lambda: (zone / "b").write_text("draft\n"))
    assert conflicts_of(read_draft(draft), zone) == {"a": CHANGED}
