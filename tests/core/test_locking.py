"""Hashes of the files of a worker: every file counts, and a link by its target."""

from pathlib import Path

from forge_cli.core.locking import files_below


def test_links_are_locked_by_their_targets(tmp_path: Path) -> None:
    skill = tmp_path / "skill"
    (skill / "more").mkdir(parents=True)
    (skill / "SKILL.md").write_text("text")
    (skill / "more/a.txt").write_text("a")
    (skill / "file").symlink_to("SKILL.md")
    (skill / "folder").symlink_to("../elsewhere")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/hidden.txt").write_text("not followed")
    (skill / "__pycache__").mkdir()
    (skill / "__pycache__/a.pyc").write_bytes(b"cache")
    assert files_below(skill) == {
        "SKILL.md": b"text",
        "more/a.txt": b"a",
        "file": b"SKILL.md",
        "folder": b"../elsewhere",
    }
