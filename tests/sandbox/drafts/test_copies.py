"""Drafts on plain copies, where no view can be had.

Covers forge_cli.sandbox.drafts.copies, forge_cli.sandbox.changes.copied.
"""

import os
import socket
from pathlib import Path

import pytest

from forge_cli.core.errors import UsageError
from forge_cli.sandbox.drafts.changes import apply_draft, read_draft
from forge_cli.sandbox.drafts.conflicts import ConflictChoice, settle_conflicts
from forge_cli.sandbox.drafts.copies import copy_zones
from forge_cli.sandbox.drafts.draft import drop_draft, new_draft

from .drafted import begin, conflicts_of


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    zone = tmp_path / "zone"
    for name in ("a", "b", "d/a", "d/b"):
        (zone / name).parent.mkdir(parents=True, exist_ok=True)
        (zone / name).write_text(f"one {name}\n")
    return zone


def test_copy_is_beside_the_zone_and_goes_with_the_draft(zone: Path, tmp_path: Path) -> None:
    draft = copy_zones(begin(zone, tmp_path / "drafts"), "the test wants it")
    copy = draft.seen_path(zone)
    assert copy.parent == zone.parent
    assert copy.stat().st_mode & 0o777 == zone.stat().st_mode & 0o777
    assert read_draft(draft).changes == ()
    drop_draft(draft)
    assert sorted(os.listdir(tmp_path)) == ["drafts", "zone"]


def test_copy_of_a_part_of_a_repository_is_in_the_draft(zone: Path, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    draft = copy_zones(begin(zone, tmp_path / "drafts"), "the test wants it")
    assert draft.seen_path(zone).is_relative_to(tmp_path / "drafts")


def test_part_of_a_copy_is_applied_and_the_rest_stays(zone: Path, tmp_path: Path) -> None:
    draft = copy_zones(begin(zone, tmp_path / "drafts"), "the test wants it")
    copy = draft.seen_path(zone)
    (copy / "a").write_text("draft\n")
    (copy / "new").mkdir()
    (copy / "new/file").write_text("draft\n")
    (copy / "d/b").unlink()
    changed = read_draft(draft)
    apply_draft(changed, changed.named([zone / "a"]))
    assert (zone / "a").read_text() == (copy / "a").read_text() == "draft\n"
    changed = read_draft(draft)
    assert [str(each.path.relative_to(zone)) for each in changed.changes] == [
        "d/b",
        "new",
        "new/file",
    ]
    (copy / "a").write_text("again\n")
    changed = read_draft(draft)
    assert changed.conflicts == []
    apply_draft(changed, changed.changes)
    assert (zone / "a").read_text() == "again\n"
    assert (zone / "new/file").read_text() == "draft\n"
    assert not (zone / "d/b").exists()


def test_copy_does_not_take_over_what_others_change(zone: Path, tmp_path: Path) -> None:
    draft = copy_zones(begin(zone, tmp_path / "drafts"), "the test wants it")
    copy = draft.seen_path(zone)
    (copy / "a").write_text("draft\n")
    for name in ("a", "b", "mine"):
        (zone / name).write_text("mine\n")
    (zone / "d/b").unlink()
    changed = read_draft(draft)
    assert conflicts_of(changed, zone) == {"a": "was changed since the draft began"}
    assert len(changed.changes) == 1
    settle_conflicts(changed, changed.conflicts, ConflictChoice.MINE)
    assert read_draft(draft).changes == ()
    assert (copy / "a").read_text() == "mine\n"


def test_inner_zone_is_a_part_of_the_copy(zone: Path, tmp_path: Path) -> None:
    os.environ["FORGE_DRAFTS"] = str(tmp_path / "drafts")
    zones = [("zone", zone), ("inner", zone / "d")]
    draft = copy_zones(new_draft("d", "test", zone, zone, zones), "the test wants it")
    inner = draft.seen_path(zone / "d")
    assert inner == draft.seen_path(zone) / "d"
    (inner / "a").write_text("draft\n")
    changed = read_draft(draft)
    apply_draft(changed, changed.changes)
    assert (zone / "d/a").read_text() == "draft\n"


def test_sockets_and_odd_names_are_no_changes(zone: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(zone / "socket"))
        (zone / os.fsdecode(b"line\nbreak \xff")).write_text("x\n")
        draft = copy_zones(begin(zone, tmp_path / "drafts"), "the test wants it")
        assert read_draft(draft).changes == ()


@pytest.mark.parametrize("name", ["MAX_ENTRIES", "MAX_BYTES"])
def test_copy_is_bounded(
    name: str, zone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"forge_cli.sandbox.drafts.copies.{name}", 3)
    with pytest.raises(UsageError, match="the test wants it; a plain copy of the folder failed"):
        copy_zones(begin(zone, tmp_path / "drafts"), "the test wants it")


def test_size_of_a_copy_counts_changes_only(zone: Path, tmp_path: Path) -> None:
    os.environ["FORGE_DRAFTS"] = str(tmp_path / "drafts")
    (zone / "large").write_bytes(bytes(3 << 20))
    draft = new_draft("d", "test", zone, zone, [("zone", zone)], 2 << 20)
    draft = copy_zones(draft, "the test wants it")
    assert draft.view.exceeded() is None
    (draft.seen_path(zone) / "more").write_bytes(bytes(3 << 20))
    assert "the draft may hold" in (draft.view.exceeded() or "")
