"""Replacing a file: whole or not at all."""

import stat
from pathlib import Path

import pytest

from forge_cli.files.replace import replace_file


def test_file_is_replaced_completely(tmp_path: Path) -> None:
    file = tmp_path / "new" / "file"
    replace_file(file, "old")
    with open(file) as reader:
        replace_file(file, "new")
        assert (reader.read(), file.read_text()) == ("old", "new")
    assert [path.name for path in file.parent.iterdir()] == ["file"]
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_failed_replacement_changes_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(tmp_path / "file", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_link_is_replaced_instead_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to("file")
    replace_file(tmp_path / "link", "new")
    assert ((tmp_path / "file").read_text(), (tmp_path / "link").is_symlink()) == ("kept", False)
