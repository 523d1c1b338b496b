"""Kept answers: a question is answered without looking again only while all that was read for it is as it was.

Covers forge_cli.cli.looking.trace, forge_cli.cli.worker.checking.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forge_cli.cli.looking import answers
from forge_cli.cli.looking.answers import answer
from forge_cli.files.home import forge_home
from forge_cli.testing import Project

WORKER = "name: w\ntoolsets:\n  filesystem: {}\n  custom: {module: ./tools.py, tools: [%s]}\n%s"
TOOLS = "import helper\n\ndef one() -> int:\n    return helper.value\n\ndef two() -> int:\n    return 2\n"
ZONES = "sandbox: {zones: [{name: data, path: ./data, mode: ro}]}\n"
TRIES = 10


def kept(home: Path) -> list[Path]:
    return sorted((home / "cache" / "answers").glob("*.json"))


def check(project: Project) -> tuple[int, str]:
    """The environment counts, and pytest changes it."""
    done = project.forge("worker", "check", "worker.yaml", env={"PYTEST_CURRENT_TEST": ""})
    return done.returncode, done.stdout + done.stderr


def test_a_check_is_kept_until_something_changes_that_it_read(project: Project) -> None:
    project.write("worker.yaml", WORKER % ("one", ZONES))
    project.write("tools.py", TOOLS)
    project.write("helper.py", "value = 1\n")
    (project.folder / "data").mkdir()
    for _ in range(TRIES):  # what was written a moment ago is not kept yet
        first = check(project)
        if files := kept(project.home):
            break
    seen = json.loads(files[0].read_bytes())
    files[0].write_text(json.dumps({**seen, "answer": "from the cache"}))
    assert check(project) == (0, "from the cache")

    names = {"worker.yaml", "tools.py", "helper.py", "data"}
    assert {str(project.folder / name) for name in names} <= seen["seen"].keys()

    project.write("helper.py", "value: int = 1\n")
    assert check(project) == first
    (project.folder / "data").rmdir()
    assert check(project)[0] == 3


def test_a_kept_check_depends_on_the_file_of_a_scripted_model(project: Project) -> None:
    project.write("worker.yaml", "name: w\nmodel: script:turns.yaml\n")
    project.write("turns.yaml", "turns: []\n")
    for _ in range(TRIES):  # what was written a moment ago is not kept yet
        assert check(project)[0] == 0
        if files := kept(project.home):
            break
    assert str(project.folder / "turns.yaml") in json.loads(files[0].read_bytes())["seen"]
    (project.folder / "turns.yaml").unlink()
    assert check(project)[0] == 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where something is read; however new it is, it is kept."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(answers, "SETTLED", -3600.0)
    place = tmp_path / "place"
    place.mkdir()
    (place / "file").write_text("1")
    return place


def looks_at(file: Path) -> tuple[Callable[[], str], list[str]]:
    """A function that reads a file, and what it found each time."""
    found: list[str] = []

    def look() -> str:
        found.append(file.read_text() if file.exists() else "none")
        return found[-1]

    return look, found


def test_the_same_question_is_looked_at_once(folder: Path) -> None:
    look, found = looks_at(folder / "file")
    assert [answer(("q",), look) for _ in range(3)] == ["1", "1", "1"]
    assert found == ["1"]
    assert answer(("another",), look) == "1"
    assert found == ["1", "1"]


def write_in_place(file: Path) -> None:
    """With the time and the size that it had."""
    before = file.stat()
    file.write_text("2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "its content": lambda folder: (folder / "file").write_text("22"),
    "its content, and not its time and size": lambda folder: write_in_place(folder / "file"),
    "the file is gone": lambda folder: (folder / "file").unlink(),
    "a file beside it": lambda folder: (folder / "more").touch(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_what_changes_is_looked_at_again(folder: Path, change: Callable[[Path], object]) -> None:
    look, found = looks_at(folder / "file")
    answer(("q",), look)
    change(folder)
    assert answer(("q",), look) == found[-1]
    assert len(found) == 2


def test_what_was_not_there_is_looked_for_again(folder: Path) -> None:
    def look() -> str:
        try:
            return (folder / "later").read_text()
        except FileNotFoundError:
            return "none"

    assert answer(("q",), look) == "none"
    (folder / "later").write_text("there")
    assert answer(("q",), look) == "there"


def test_places_besides_count(folder: Path) -> None:
    look, found = looks_at(folder / "file")
    zone = folder / "zone"
    for _ in range(2):
        answer(("q",), look, lambda: [zone])
        zone.mkdir(exist_ok=True)
    assert len(found) == 2


def test_the_environment_counts_but_for_what_shells_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look, found = looks_at(folder / "file")
    answer(("q",), look)
    monkeypatch.setenv("SHLVL", "7")
    answer(("q",), look)
    assert len(found) == 1
    monkeypatch.setenv("SOMETHING", "else")
    answer(("q",), look)
    assert len(found) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"answer": 1, "seen": {}}', '{"answer": "x", "seen": 3}'])
def test_an_answer_that_cannot_be_read_only_costs_time(folder: Path, content: str) -> None:
    look, found = looks_at(folder / "file")
    answer(("q",), look)
    kept(forge_home())[0].write_text(content)
    assert answer(("q",), look) == "1"
    assert len(found) == 2


def test_without_a_folder_to_write_to_nothing_is_kept(folder: Path) -> None:
    look, found = looks_at(folder / "file")
    (forge_home() / "cache").mkdir(parents=True)
    (forge_home() / "cache" / "answers").write_text("in the way")
    assert [answer(("q",), look) for _ in range(2)] == ["1", "1"]
    assert len(found) == 2


def test_what_changed_a_moment_ago_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change once more within the same tick of the clock."""
    monkeypatch.setattr(answers, "SETTLED", 3600.0)
    answer(("q",), looks_at(folder / "file")[0])
    assert not kept(forge_home())


def test_an_answer_with_a_warning_is_not_kept(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def look() -> str:
        sys.stderr.write("careful\n")
        return "said"

    assert [answer(("q",), look) for _ in range(2)] == ["said", "said"]
    assert capsys.readouterr().err == "careful\ncareful\n"


def test_folders_that_are_listed_by_a_descriptor_cannot_be_followed(folder: Path) -> None:
    def look() -> str:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            return str(len(os.listdir(descriptor)))
        finally:
            os.close(descriptor)

    assert answer(("q",), look) == "1"
    assert not kept(forge_home())


def test_old_answers_are_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST", 3)
    for number in range(5):
        answer((str(number),), lambda: "x")
    assert len(kept(forge_home())) == 3


def test_a_failure_is_not_kept(folder: Path) -> None:
    def look() -> str:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            answer(("q",), look)
    assert not kept(forge_home())
