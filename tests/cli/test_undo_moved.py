"""``forge undo`` of files without stored content: they are moved back, and a possible only copy stays.

Covers forge_cli.record.moved, forge_cli.record.restoring.
"""

import json
import os
from pathlib import Path

import pytest

from forge_cli.record import changes
from forge_cli.record import redo as of_redo
from forge_cli.sandbox.changes import path_changes as of_commands
from forge_cli.sandbox.files import held
from forge_cli.testing import Project, call, calls
from tests.support.logs import script, sessions

from .test_undo import WORKER as TOOLS_WORKER
from .test_undo_commands import WORKER, own

MAX = 100
BIG = "".join(f"line {number}\n" for number in range(40))
OTHER = BIG.replace("line", "other")
WHY = "files of more than 0 MB are not backed up"


@pytest.fixture
def mover(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in which files of more than a hundred bytes are not kept."""
    for module in (changes, of_commands, of_redo):
        monkeypatch.setattr(module, "READ_MAX", MAX)
    monkeypatch.setattr(held, "KEPT_MAX", MAX)
    monkeypatch.setattr(changes, "KEPT_MAX", MAX)
    project.write("worker.yaml", WORKER)
    project.write("big.iso", BIG).chmod(0o640)
    project.write("other.iso", OTHER)
    project.write("small.txt", "small\n")
    project.write("deep/er/big.iso", BIG.upper())
    return project


def work(mover: Project, cli, *lines: str) -> str:
    """Run these command lines, one call each; return standard error."""
    turns = [calls(call("shell", command=line)) for line in lines]
    script(mover, *turns, "done")
    done = cli("run", "worker.yaml", "go", "-p", "-y")
    assert (done.code, done.out) == (0, "done\n"), done
    return done.err


def contents(folder: Path) -> list[bytes]:
    """The contents of all files, without their names."""
    return sorted(
        path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "script.yaml"
    )


MOVED = {
    "renamed": ["mv big.iso kept.iso"],
    "into a folder that was made": ["mkdir arch; mv big.iso small.txt arch/"],
    "a chain": ["mv big.iso a; mv a b; mkdir -p x/y; mv b x/y/c"],
    "a chain of calls": ["mv big.iso a", "mkdir x; mv a x/b", "mv x y", "mv y/b c; rmdir y"],
    "a folder": ["mv deep shallow"],
    "a folder into another": ["mkdir new; mv deep new/; mv big.iso new/deep/er/second"],
    "a folder of calls": ["mv deep one", "mv one two", "mkdir three; mv two three/"],
    "swapped": ["mv big.iso t; mv other.iso big.iso; mv t other.iso"],
    "three around": [
        "mv big.iso t; mv other.iso big.iso; mv deep/er/big.iso other.iso; mv t deep/er/big.iso"
    ],
    "onto a file that is kept": ["mv big.iso small.txt"],
    "onto a file that is moved": ["mv other.iso elsewhere; mv big.iso other.iso"],
    "copied and deleted": ["cp big.iso one; cp big.iso two; rm big.iso"],
    "copied by an earlier call": ["cp big.iso one", "echo x > note", "rm big.iso"],
    "edited where a copy is": ["cp big.iso copy", "echo more >> big.iso"],
    "into a folder in its place": ["mv big.iso t; mkdir big.iso; mv t big.iso/big.iso"],
    "from a folder that a file replaces": ["mv deep/er/big.iso x; rm -r deep; mv x deep"],
    "to an odd name": ["mv big.iso $'line\\nbreak'"],
    "by a link": ["ln big.iso second; rm big.iso"],
    "among others": [
        "mkdir d; mv *.iso *.txt d/; rm -r deep/er/nothing; echo new > new; chmod 600 d/big.iso"
    ],
    "times and modes": ["mv big.iso k; touch -d 2001-01-01 k; chmod 400 k"],
}


@pytest.mark.few(8)
@pytest.mark.needs("overlay")
@pytest.mark.parametrize("lines", MOVED.values(), ids=MOVED)
def test_moved_file_is_moved_back(mover: Project, cli, lines: list[str]) -> None:
    before = own(mover.folder)
    told = work(mover, cli, *lines)
    after = own(mover.folder)
    assert "will not restore" not in told
    listed = cli("undo", "--list")
    assert "left" not in listed.out
    done = cli("undo")
    assert (done.code, own(mover.folder)) == (0, before), done
    assert not sessions(mover)[0].with_suffix(".undo").exists()
    again = cli("undo", "--redo")
    assert (again.code, own(mover.folder)) == (0, after), again
    assert not sessions(mover)[0].with_suffix(".redo").exists()
    assert cli("undo").code == 0
    assert own(mover.folder) == before


@pytest.mark.needs("overlay")
def test_undo_shows_each_move(mover: Project, cli) -> None:
    work(mover, cli, "mkdir d; mv big.iso d/kept.iso")
    assert (
        cli("undo", "--list").out
        == "move      d/kept.iso: back to big.iso\nremove    d\nrestore   big.iso\n"
    )
    done = cli("undo", "--json")
    assert [
        (Path(row["path"]).name, row["action"], row["left"]) for row in json.loads(done.out)
    ] == [
        ("kept.iso", "move", None),
        ("d", "remove", None),
        ("big.iso", "restore", None),
    ]


@pytest.mark.needs("overlay", "git")
def test_file_moved_by_git_is_moved_back(mover: Project, cli) -> None:
    work(mover, cli, "git init -q; git add big.iso; git mv big.iso kept.iso")
    assert not (mover.folder / "big.iso").exists()
    assert cli("undo").code == 0
    assert mover.read("big.iso") == BIG


@pytest.mark.needs("overlay")
def test_files_beyond_the_storage_limit_are_moved_back(mover: Project, cli, monkeypatch) -> None:
    monkeypatch.setattr(changes, "COMMANDS_MAX", 10)
    for number in range(9):
        mover.write(f"{number}.bin", f"{number}" * 5)
    before = own(mover.folder)
    work(mover, cli, "mkdir d; mv *.bin small.txt d/")
    done = cli("undo")
    assert (done.code, own(mover.folder)) == (0, before), done


CHANGED = {
    "edited": ["mv big.iso kept.iso; echo more >> kept.iso"],
    "edited by another call": ["mv big.iso kept.iso", "echo more >> kept.iso"],
    "cut": ["head -c 200 big.iso > part; rm big.iso"],
    "in pieces": ["split -b 50 big.iso part-; rm big.iso"],
    "compressed": ["gzip -9 big.iso"],
    "compressed under another name": ["gzip -9 < big.iso > all; rm big.iso"],
    "compressed by an earlier call": ["tar czf all.tgz big.iso deep", "rm -r big.iso deep"],
    "onto a file that is kept": ["sed s/line/LINE/ big.iso > small.txt; rm big.iso"],
    "in a folder": ["mkdir d; mv big.iso d; echo x >> d/big.iso"],
}


@pytest.mark.few(5)
@pytest.mark.needs("overlay")
@pytest.mark.parametrize("lines", CHANGED.values(), ids=CHANGED)
def test_possible_only_copy_stays_and_is_named(mover: Project, cli, lines: list[str]) -> None:
    told = work(mover, cli, *lines)
    assert "forge undo will not restore" in told
    after = contents(mover.folder)
    done = cli("undo")
    assert done.code == 1
    assert f"left      big.iso: {WHY}\n" in done.out
    assert "it may contain the earlier" in done.out
    assert contents(mover.folder) == after
    assert (cli("undo").code, contents(mover.folder)) == (1, after)


@pytest.mark.needs("overlay")
def test_file_with_a_copy_elsewhere_is_undone(mover: Project, cli) -> None:
    mover.write("big.iso", BIG * 100)
    told = work(
        mover, cli, "rm big.iso; echo note > note; echo 2 >> small.txt; mv other.iso next.iso"
    )
    assert (
        told.splitlines()[0]
        == f"warning: forge undo will not restore {mover.folder}/big.iso: {WHY}"
    )
    assert cli("undo").code == 1
    assert (mover.read("small.txt"), mover.read("other.iso")) == ("small\n", OTHER)
    assert not (mover.folder / "note").exists()


@pytest.mark.needs("overlay")
def test_file_that_cannot_be_moved_back_stays(mover: Project, cli) -> None:
    work(mover, cli, "mv big.iso kept.iso")
    mover.write("big.iso", "mine")
    done = cli("undo")
    assert (done.code, mover.read("big.iso"), mover.read("kept.iso")) == (1, "mine", BIG)
    assert "left      kept.iso: it is the only copy of the earlier" in done.out
    (mover.folder / "big.iso").unlink()
    assert (cli("undo").code, mover.read("big.iso")) == (0, BIG)


@pytest.mark.needs("overlay")
def test_moved_file_changed_since_is_not_moved_back(mover: Project, cli) -> None:
    work(mover, cli, "mv big.iso kept.iso")
    mover.write("kept.iso", BIG + "mine\n")
    assert cli("undo").code == 1
    assert mover.read("kept.iso") == BIG + "mine\n"


@pytest.mark.needs("overlay")
def test_split_part_is_undone_only_if_it_has_the_content(mover: Project, cli) -> None:
    work(mover, cli, "cp big.iso copy.iso", "rm big.iso")
    done = cli("undo", "--call", "1")
    assert (done.code, mover.read("copy.iso")) == (1, BIG)
    assert "left      copy.iso: it is the only copy of the earlier" in done.out
    assert (cli("undo", "--call", "2").code, mover.read("copy.iso")) == (1, BIG)
    assert (cli("undo").code, mover.read("big.iso")) == (0, BIG)
    assert not (mover.folder / "copy.iso").exists()


@pytest.mark.needs("overlay")
def test_last_of_two_moves_is_undone_alone(mover: Project, cli) -> None:
    work(mover, cli, "mv big.iso one", "mv one two")
    assert (cli("undo", "--call", "1").code, mover.read("two")) == (1, BIG)
    assert (cli("undo", "--call", "2").code, mover.read("one")) == (0, BIG)
    assert (cli("undo", "--call", "1").code, mover.read("big.iso")) == (0, BIG)


@pytest.mark.needs("overlay")
def test_only_copy_made_by_another_session_stays(mover: Project, cli) -> None:
    work(mover, cli, "cp big.iso copy.iso")
    first = sessions(mover)[0].stem
    work(mover, cli, "rm big.iso")
    done = cli("undo", first)
    assert (done.code, mover.read("copy.iso")) == (1, BIG)
    assert "left      copy.iso: it is the only copy of the earlier" in done.out


@pytest.mark.needs("overlay")
def test_sessions_that_moved_a_file_in_turn_are_undone_in_turn(mover: Project, cli) -> None:
    before = own(mover.folder)
    found = []
    for line in ("mv big.iso one", "mv one two", "mkdir d; mv two d/three"):
        work(mover, cli, line)
        found.append(sessions(mover)[0].stem)
    assert (cli("undo", found[0]).code, mover.read("d/three")) == (1, BIG)
    assert (cli("undo", found[1]).code, mover.read("d/three")) == (1, BIG)
    for session in reversed(found):
        assert cli("undo", session).code == 0
    assert own(mover.folder) == before


@pytest.mark.needs("overlay")
def test_names_that_file_tools_refuse_are_undone(mover: Project, cli) -> None:
    odd = os.fsencode(mover.folder) + b"/\xff\x1b[31m\tname\n"
    with open(odd, "w") as stream:
        stream.write("odd\n")
    before = own(mover.folder)
    lines = (
        "mkdir $'new\nd'; echo x > $'new\nd/\\xfe'",
        'for f in *name*; do mv "$f" "$f.moved"; done',
        "mv big.iso $'b\\xffg'",
    )
    work(mover, cli, *lines)
    done = cli("undo")
    assert (done.code, own(mover.folder)) == (0, before), done
    assert "restored  \\udcff\\x1b[31m\\tname\\n\n" in done.out


MOVE = "*** Begin Patch\n*** Update File: {0}\n*** Move to: {1}\n@@\n-line 0\n+{2}\n line 1\n*** End Patch"


@pytest.fixture
def patcher(mover: Project) -> Project:
    mover.write("worker.yaml", TOOLS_WORKER)
    return mover


def patch(patcher: Project, cli, *patches: str) -> str:
    script(patcher, *(calls(call("apply_patch", input=each)) for each in patches), "done")
    done = cli("run", "worker.yaml", "go", "-p")
    assert (done.code, done.out) == (0, "done\n"), done
    return done.err


def moving(source: str, target: str) -> str:
    return f"*** Begin Patch\n*** Update File: {source}\n*** Move to: {target}\n*** End Patch"


@pytest.mark.parametrize(
    "patches",
    [
        [moving("big.iso", "kept.iso")],
        [moving("big.iso", "a/b/c.iso"), moving("a/b/c.iso", "a/d.iso")],
        [moving("big.iso", "t"), moving("other.iso", "big.iso"), moving("t", "other.iso")],
    ],
)
def test_file_moved_by_a_patch_is_moved_back(patcher: Project, cli, patches: list[str]) -> None:
    before = own(patcher.folder)
    assert "will not restore" not in patch(patcher, cli, *patches)
    done = cli("undo")
    assert (done.code, own(patcher.folder)) == (0, before), done


def test_file_moved_and_edited_by_a_patch_stays(patcher: Project, cli) -> None:
    told = patch(patcher, cli, MOVE.format("big.iso", "kept.txt", "LINE"))
    assert "forge undo will not restore" in told
    done = cli("undo")
    assert (done.code, patcher.read("kept.txt")) == (1, BIG.replace("line 0", "LINE"))
    assert "left      kept.txt: it may contain the earlier" in done.out


@pytest.mark.needs("overlay")
@pytest.mark.parametrize("line", ["mv big.iso kept.iso", "mv big.iso small.txt", "mv deep flat"])
def test_interrupted_undo_is_finished_by_the_next(
    mover: Project, cli, monkeypatch, line: str
) -> None:
    before = own(mover.folder)
    work(mover, cli, line)
    for step in ("put_back", "_undo_one"):
        with monkeypatch.context() as patched:
            patched.setattr(f"forge_cli.record.undo.{step}", stopped)
            assert cli("undo").code == 130
        assert BIG.encode() in contents(mover.folder)
    done = cli("undo")
    assert (done.code, own(mover.folder)) == (0, before), done


def stopped(*_: object) -> None:
    raise KeyboardInterrupt


class Killed(BaseException):
    """Ends forge at this place; no code handles it."""


@pytest.mark.few(4)
@pytest.mark.parametrize("then", ["undo", "redo"])
@pytest.mark.parametrize(
    "how", ["renamed", "into a folder that was made", "swapped", "three around"]
)
def test_redo_interrupted_between_the_steps_of_a_move_can_go_both_ways(
    mover: Project, cli, monkeypatch: pytest.MonkeyPatch, how: str, then: str
) -> None:
    before = own(mover.folder)
    work(mover, cli, *MOVED[how])
    after = own(mover.folder)
    assert cli("undo").code == 0
    vast = [each for each in contents(mover.folder) if len(each) > MAX]
    real = os.rename

    def cut_off(source: str, target: str, **folders: int) -> None:
        if str(source).startswith(".forge-undo-"):
            raise Killed
        real(source, target, **folders)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", cut_off)
        assert cli("undo", "--redo").code != 0
    assert list(mover.folder.glob(".forge-undo-*"))
    assert [each for each in contents(mover.folder) if len(each) > MAX] == vast
    ways = {"undo": (["undo"], before), "redo": (["undo", "--redo"], after)}
    for way in (then, "undo", "redo", "undo"):
        argv, wanted = ways[way]
        done = cli(*argv)
        assert (done.code, own(mover.folder)) == (0, wanted), (way, done)
