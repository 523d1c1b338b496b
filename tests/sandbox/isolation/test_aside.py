"""Protected names set aside: by a rename in their own folder, and never behind a link."""

from pathlib import Path

from forge_cli.sandbox.isolation.protected_scan import set_aside
from forge_cli.sandbox.protected import is_protected


def test_new_name_is_not_protected_and_keeps_the_content(tmp_path: Path) -> None:
    for name in (".env", ".git", "mcp.json", "x.worker"):
        (tmp_path / name).write_text(name)
        renamed = set_aside(tmp_path / name)
        assert renamed is not None
        assert not is_protected(renamed)
        assert (tmp_path / renamed).read_text() == name
        assert not (tmp_path / name).exists()


def test_paths_behind_links_are_not_set_aside(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/.env").touch()
    (tmp_path / "link").symlink_to("real")
    assert set_aside(tmp_path / "link/.env") is None
    assert set_aside(tmp_path / "real/.git") is None
    assert (tmp_path / "real/.env").exists()
