"""Names that are hard to show or no text at all: commands and tools change them, and they are kept, shown and undone.

Covers forge_cli.record.changes, forge_cli.record.restoring.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from forge_cli.testing import Project, calls
from tests.support.logs import script, sessions

from .test_undo_commands import WORKER, own, shell

pytestmark = pytest.mark.needs("overlay")

NAMES = [
    *(
        b"new\nline",
        b"end\n",
        b"\r",
        b"tab\tname",
        b"esc\x1b[31mred\x1b[0m",
        b"bell\x07",
        b"\x01",
        b"\x7f",
    ),
    *(b"-rf", b"--", b"trailing ", b" leading", b"\xff", b"caf\xe9", b"\xed\xa0\x80", b".git\xff"),
    *(
        b"a" * 255,
        "é".encode() * 127,
        b"\xff" * 255,
        "\u202ertl".encode(),
        "\u2028".encode(),
        "😀".encode(),
    ),
    *(
        b"back\\slash",
        b"quote'\"",
        b"*",
        b"$(x)",
        b"~",
        b"#x",
        b"a:b",
        b"%n",
        b"\\n",
        b"\\xff",
        b".forge-x",
    ),
]
OPERATIONS = """
import os, shutil
names = {names!r}
for number, name in enumerate(names):
    open(b"changed/" + name, "ab").write(b"more")
    open(b"made/" + name, "wb").write(b"made")
    os.unlink(b"gone/" + name)
    os.mkdir(b"folders/" + name)
    open(b"folders/" + name + b"/" + name, "wb").write(b"deep")
    os.rename(b"from/" + name, b"to/" + name)
    os.symlink(name, b"links/%d" % number)
    os.symlink(b"app.py", b"named/" + name)
    os.unlink(b"pointing/" + name)
    os.symlink(name, b"pointing/" + name)
    os.chmod(b"modes/" + name, 0o600)
    shutil.rmtree(b"trees/" + name)
"""
FOLDERS = "changed made gone folders from to links named pointing modes trees"


@pytest.fixture
def named(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("script.yaml", "")
    project.write("app.py", "one\n")
    fill(project.folder)
    return project


def fill(folder: Path) -> None:
    (folder / "operations.py").write_text(OPERATIONS.replace("{names!r}", repr(NAMES)))
    for each in FOLDERS.split():
        (folder / each).mkdir()
    place = os.fsencode(folder)
    for name in NAMES:
        for each in (b"changed", b"gone", b"from", b"modes"):
            Path(os.fsdecode(os.path.join(place, each, name))).write_bytes(each)
        os.symlink(b"worker.yaml", os.path.join(place, b"pointing", name))
        tree = os.path.join(place, b"trees", name)
        os.mkdir(tree)
        Path(os.fsdecode(os.path.join(tree, name))).write_bytes(name)


def test_changes_of_odd_names_are_undone_and_redone(named: Project, cli) -> None:
    before = own(named.folder)
    script(named, calls(shell("python3 operations.py && echo well")), "done")
    done = cli("run", "worker.yaml", "go", "-p", "-y")
    assert (done.code, done.out) == (0, "done\n"), done
    after = own(named.folder)
    assert len(after) == len(before) + 2 * len(NAMES)
    assert "well" in sessions(named)[0].read_text()
    for command in (("undo", "--list"), ("sessions", "show", "last"), ("undo", "--list", "--json")):
        listed = cli(*command)
        assert listed.code == 0, listed
        assert "\x1b[31m" not in listed.out
        assert "\x07" not in listed.out
    paths = {os.fsencode(row["path"]) for row in json.loads(listed.out)}
    assert paths >= {os.path.join(os.fsencode(named.folder), b"made", name) for name in NAMES}
    for words, expected in (((), before), (("--redo",), after), ((), before)):
        done = cli("undo", *words)
        assert (done.code, own(named.folder)) == (0, expected), done
    assert len(done.out.splitlines()) == len(paths)


def test_trial_shows_odd_names_and_applies_them_after_a_yes(
    named: Project, cli, tmp_path: Path
) -> None:
    before = own(named.folder)
    real = tmp_path / "real"
    real.mkdir()
    (real / "app.py").write_text("one\n")
    fill(real)
    script(named, calls(shell("python3 operations.py")), "done")
    assert cli("run", "worker.yaml", "go", "-p", "--on-ask", "park").code == 10
    assert own(named.folder) == before
    for command in (
        ("approvals", "list"),
        ("approvals", "list", "--json"),
        ("sessions", "show", "last"),
    ):
        told = cli(*command)
        assert told.code == 0, told
        assert not {"\x1b", "\x07", "\u202e", "\r"} & set(told.out), command
    assert cli("approvals", "answer", "last", "yes").code == 0
    done = cli("run", "worker.yaml", "-r", "last", "-p")
    assert (done.code, done.out) == (0, "done\n"), done
    subprocess.run(["python3", "operations.py"], cwd=real, check=True, timeout=60)
    expected = own(real)
    assert {
        name: said for name, said in own(named.folder).items() if name != "worker.yaml"
    } == expected
    assert cli("undo").code == 0
    assert own(named.folder) == before


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [b"new\nline", b"\xff\xfe", b"esc\x1b[31m", b" "], ids=repr)
def test_working_directory_may_have_an_odd_name(named: Project, cli, name: bytes) -> None:
    folder = Path(os.fsdecode(os.path.join(os.fsencode(named.folder), name)))
    folder.mkdir()
    (folder / "app.py").write_text("one\n")
    script(
        named,
        calls(shell("echo two > app.py; mkdir d; echo new > d/new; ln -s app.py link")),
        "done",
    )
    worker = str(named.folder / "worker.yaml")
    assert cli("run", worker, "go", "-p", "--on-ask", "park", "-C", str(folder)).code == 10
    assert own(folder) == {"app.py": (0o100644, b"one\n")}
    assert cli("approvals", "answer", "last", "yes").code == 0
    done = cli("run", worker, "-r", "last", "-p", "-C", str(folder))
    assert (done.code, done.out) == (0, "done\n"), done
    after = own(folder)
    assert sorted(after) == ["app.py", "d", "d/new", "link"]
    for words, expected in (((), {"app.py": (0o100644, b"one\n")}), (("--redo",), after)):
        told = cli("undo", sessions(named)[0].stem, *words)
        assert (told.code, own(folder)) == (0, expected), told
        assert "\x1b[31m" not in told.out
