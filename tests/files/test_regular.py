"""Opening files by names that others chose never waits."""

import os
from pathlib import Path

import pytest

from forge_cli.files.regular import NotRegularError, open_regular, read_regular
from forge_cli.testing import Project

from ..deadline import deadline


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    assert (read_regular(tmp_path / "a"), read_regular(tmp_path / "a", 3)) == (b"content", b"con")


def test_what_is_not_a_file_is_told_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with deadline():
        for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/zero")):
            with pytest.raises(NotRegularError, match="not a regular file"):
                open_regular(path)
        with pytest.raises(IsADirectoryError):
            open_regular(tmp_path)
        with pytest.raises(FileNotFoundError):
            open_regular(tmp_path / "absent")


def test_a_pipe_in_the_place_of_a_module(project: Project) -> None:
    os.mkfifo(project.folder / "tools.py")
    project.write("worker.yaml", "name: w\ntoolsets: {custom: {module: ./tools.py, tools: [act]}}\n")
    done = project.forge("worker", "check", "worker.yaml")
    assert done.returncode == 3
    assert "toolsets.custom.module: there is no file" in done.stderr


def test_a_pipe_in_the_folder_of_an_executable(project: Project) -> None:
    folder = project.home / "tools" / "greet"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "data")
    (folder / "greet.sh").write_text("echo hi\n")
    (folder / "tool.yaml").write_text("name: greet\ndescription: Greets\nentrypoint: greet.sh\n")
    done = project.forge("tools", "list")
    assert done.returncode == 0
    assert "greet" in done.stdout
