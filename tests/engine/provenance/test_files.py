"""Files as they were when a session began."""

import os
import subprocess
import time
from pathlib import Path

from forge_cli.engine.provenance.files import FilesAtStart


def repository(folder: Path) -> Path:
    (folder / "a.txt").write_text("words")
    (folder / "b.txt").write_text("words")
    for words in (["init", "-q"], ["add", "a.txt"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=30)
    return folder


def later() -> float:
    return time.time() + 60


def test_tracked_file_of_before_is_held(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    files = FilesAtStart(later())
    assert files.hold([folder / "a.txt"], tracked=True)
    assert not files.hold([folder / "b.txt"], tracked=True)
    assert not files.hold([folder / "a.txt", folder / "b.txt"], tracked=True)
    assert files.hold([folder / "b.txt"], tracked=False)
    assert not files.hold([], tracked=False)
    assert not files.hold([folder], tracked=False)


def test_file_that_changed_since_is_not(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    files = FilesAtStart(time.time() - 60)
    os.utime(folder / "a.txt", (0, 0))  # a program can set this time, but not that of the change
    assert not files.hold([folder / "a.txt"], tracked=True)
    assert not files.hold([folder / "b.txt"], tracked=False)


def test_index_that_changed_since_tracks_nothing(tmp_path: Path) -> None:
    folder = repository(tmp_path)
    began = os.stat(folder / "a.txt").st_ctime + 0.5
    files = FilesAtStart(began)
    os.utime(folder / ".git" / "index")
    while os.stat(folder / ".git" / "index").st_ctime < began:
        os.utime(folder / ".git" / "index")
    assert files.hold([folder / "a.txt"], tracked=False)
    assert not files.hold([folder / "a.txt"], tracked=True)
