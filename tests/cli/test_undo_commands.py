"""``forge undo`` of commands: their changes are restored by session, by call and by turn.

Covers forge_cli.sandbox.trial.left and forge_cli.record.caches.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.logs import script, sessions

from .test_undo import tree

pytestmark = pytest.mark.needs("overlay")

WORKER = """
name: builder
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw, approval: {write: preApproved, delete: preApproved}}]}
toolsets: {filesystem: {}, shell: {}}
"""
BUILD = (
    "mkdir -p dist/deep; echo built > dist/deep/out; sed -i s/one/1/ app.py; rm -r old; chmod 600 mode; "
    "ln -s app.py link; mv moved elsewhere; rm -rf swap; echo file > swap; rm empty -r; rm target; "
    "mkdir -p __pycache__; echo x > __pycache__/x"
)
LEFT = "forge: not undone: other effects of 1 command, such as over the network\n"


@pytest.fixture
def builder(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    for name in ("app.py", "old/a", "old/b/c", "mode", "moved/x", "swap/inside"):
        project.write(name, "one\ntwo\n").chmod(0o644)
    (project.folder / "empty").mkdir(mode=0o711)
    (project.folder / "target").symlink_to("app.py")
    project.write("build.sh", BUILD)
    project.write("script.yaml", "")
    return project


def work(builder: Project, cli, *turns: object) -> None:
    script(builder, *turns, "done")
    done = cli("run", "worker.yaml", "go", "-p", "-y")
    assert (done.code, done.out) == (0, "done\n"), done


def shell(line: str) -> object:
    return call("shell", command=line)


def own(folder: Path) -> dict[str, object]:
    """The tree but for the script that the model speaks."""
    return {name: said for name, said in tree(folder).items() if name != "script.yaml"}


@pytest.mark.parametrize("zones", ["[]", "[{name: code, path: ., mode: ro}]"])
def test_command_without_writable_folders_runs(builder: Project, cli, zones: str) -> None:
    builder.write(
        "worker.yaml",
        f"name: reader\nmodel: script:script.yaml\nsandbox: {{zones: {zones}}}\ntoolsets: {{shell: {{}}}}\n",
    )
    script(builder, calls(shell("cat app.py; touch new")), "{result}")
    done = cli("run", "worker.yaml", "go", "-p", "-y")
    assert (done.code, "one\ntwo\n" in done.out) == (0, True), done
    assert not (builder.folder / "new").exists()


def test_undo_covers_commands(builder: Project, cli) -> None:
    before = own(builder.folder)
    work(builder, cli, calls(shell("sh build.sh")))
    assert (builder.folder / "dist/deep/out").read_text() == "built\n"
    assert (builder.folder / "__pycache__/x").exists()
    assert not (builder.folder / "old").exists()
    listed = cli("undo", "--list")
    assert "restore   app.py" in listed.out
    assert "remove    dist/deep/out" in listed.out
    done = cli("undo")
    assert (done.code, done.err) == (0, LEFT), done
    assert own(builder.folder) == before
    assert not sessions(builder)[0].with_suffix(".undo").exists()
    assert not sessions(builder)[0].with_suffix(".trials").exists()


def test_program_caches_are_one_line(builder: Project, cli) -> None:
    lines = [
        "mkdir -p a/__pycache__ b/__pycache__ node_modules/.cache/x .mypy_cache c/.ruff_cache",
        "for n in 1 2 3; do echo $n > a/__pycache__/$n.pyc; echo $n > b/__pycache__/$n.pyc; done",
        "echo x > node_modules/.cache/x/y; echo x > .mypy_cache/z; echo x > c/.ruff_cache/z; echo x > a/real",
    ]
    work(builder, cli, calls(shell("sh -c '" + "; ".join(lines) + "'")))
    (row,) = (line for line in cli("undo", "--list").out.splitlines() if "cache" in line)
    assert row == "remove    caches: .mypy_cache, a/__pycache__, b/__pycache__ and 2 more"
    builder.write("a/__pycache__/1.pyc", "somebody's")
    done = cli("undo")
    rows = [line for line in done.out.splitlines() if "cache" in line]
    assert rows[0].startswith("left      a/__pycache__/1.pyc: "), done
    assert rows[-1].startswith("removed   caches: "), done
    assert not (builder.folder / "b").exists()
    assert builder.read("a/__pycache__/1.pyc") == "somebody's"


def test_single_call_or_turn_is_undone(builder: Project, cli) -> None:
    work(
        builder,
        cli,
        calls(shell("sh -c 'echo 1 > first'"), call("write_file", path="second", content="2\n")),
        calls(shell("sh -c 'echo 3 >> app.py'")),
        calls(shell("sh -c 'echo 4 >> app.py'")),
    )
    assert cli("undo", "--call", "9").code == 2
    assert cli("undo", "--call", "1", "--turn", "1").code == 2
    left = cli("undo", "--call", "3")
    assert left.code == 1
    assert "app.py: it was changed after the session" in left.out
    assert cli("undo", "--call", "4").out == "restored  app.py\n"
    assert builder.read("app.py") == "one\ntwo\n3\n"
    assert sorted(cli("undo", "--turn", "1").out.split()) == [
        "first",
        "removed",
        "removed",
        "second",
    ]
    assert cli("undo").out == "restored  app.py\n"
    assert builder.read("app.py") == "one\ntwo\n"


def test_undo_keeps_files_changed_since(builder: Project, cli) -> None:
    work(builder, cli, calls(shell("sh build.sh")))
    builder.write("app.py", "mine\n")
    done = cli("undo")
    assert (done.code, builder.read("app.py")) == (1, "mine\n")
    assert (builder.folder / "old/b/c").exists()


def test_undo_names_what_it_cannot_undo(builder: Project, cli) -> None:
    os.mkfifo(builder.folder / "pipe")
    builder.write("line\nbreak", "x\n")
    work(builder, cli, calls(shell("rm pipe; mkfifo new; rm line*; echo x > plain; true")))
    done = cli("undo")
    said = dict(
        line.split(": ", 1) if ": " in line else (line, "") for line in done.out.splitlines()
    )
    assert (done.code, sorted(said)) == (
        1,
        ["left      new", "left      pipe", "removed   plain", "restored  line\\nbreak"],
    )
    assert said["left      pipe"] == "it was a pipe, which forge does not restore"
    assert not (builder.folder / "pipe").exists()


def test_effects_of_a_failed_or_stopped_command_stay(builder: Project, cli) -> None:
    before = own(builder.folder)
    slow = call("shell", command="sh -c 'echo half > half; sleep 60'", timeout=1)
    work(builder, cli, calls(shell("sh -c 'echo x > made; exit 3'"), slow))
    assert (builder.read("made"), builder.read("half")) == ("x\n", "half\n")
    assert cli("undo").code == 0
    assert own(builder.folder) == before


def test_undo_files_leaves_commands_alone(builder: Project, cli) -> None:
    builder.write("worker.yaml", f"{WORKER}undo: files\n")
    work(builder, cli, calls(shell("sh -c 'echo x > made'")))
    done = cli("undo")
    assert (done.out, done.err.endswith(f": no change is kept\n{LEFT}")) == ("", True), done
    assert builder.read("made") == "x\n"


RENAME = 'python3 -c \'import os; open("made", "w"); os.rename("old", "new")\''


def test_folder_rename_succeeds_untracked_on_the_second_attempt(builder: Project, cli) -> None:
    script(
        builder,
        calls(shell(RENAME)),
        calls(shell(RENAME)),
        calls(shell("sh -c 'echo x > later'")),
        "done",
    )
    done = cli("run", "worker.yaml", "go", "-p", "-y")
    assert done.code == 0
    assert "run the line again" in sessions(builder)[0].read_text()
    assert (builder.folder / "new/b/c").exists()
    assert builder.read("later") == "x\n"
    assert cli("undo").out == "removed   made\n"
    assert (builder.folder / "later").exists()


REAL = {
    "moved": "mv data.bin kept.bin",
    "moved with its folder": "mkdir archive; mv data.bin old archive/",
    "one of each": "echo n > new; rm data.bin; echo x >> app.py",
    "a repository": "git init -q . && git add app.py && git -c user.name=a -c user.email=a@b.c commit -qm first",
    "made": "echo hi > new",
    "empty": "touch new",
    "many": "for n in $(seq 40); do echo $n > n$n; done; rm mode",
    "sparse": "truncate -s 5M vast; echo end >> vast; cp --sparse=always vast again",
    "in place": "sed -i s/one/1/ app.py; printf x | dd of=data.bin seek=5 bs=1 conv=notrunc status=none",
    "links": "ln app.py second; ln -s app.py third; echo more >> second",
    "unpacked": "tar cf all.tar old mode; rm -r old mode; tar xf all.tar",
    "closed": "mkdir shut; echo x > shut/x; chmod 500 shut; chmod 0 mode",
}
"""What commands of every day do."""


@pytest.mark.few(6)
@pytest.mark.needs("git")
@pytest.mark.parametrize("line", REAL.values(), ids=REAL)
def test_command_has_the_same_effects_as_without_copies_and_is_undone(
    builder: Project, cli, line: str
) -> None:
    (builder.folder / "data.bin").write_bytes(bytes(range(256)) * 200)
    before = own(builder.folder)
    real = builder.folder.with_name("real")
    shutil.copytree(builder.folder, real, symlinks=True)
    work(builder, cli, calls(shell(f"({line}) && echo well")))
    assert "well" in sessions(builder)[0].read_text()
    subprocess.run(["bash", "-c", line], cwd=real, check=True, timeout=60)
    assert told_apart(own(builder.folder)) == told_apart(own(real))
    assert list(builder.folder.rglob(".forge-*")) == []
    after = own(builder.folder)
    cli("undo")
    assert own(builder.folder) == before
    assert list(builder.folder.rglob(".forge-*")) == []
    assert not sessions(builder)[0].with_suffix(".trials").exists()
    again = cli("undo", "--redo")
    assert (again.code, own(builder.folder)) == (0, after), again


def told_apart(found: dict[str, object]) -> dict[str, object]:
    """A tree without entries that differ each time."""
    differing = (".git/index", ".git/logs", ".git/objects", ".git/refs", ".tar")
    return {
        name: said for name, said in found.items() if not any(each in name for each in differing)
    }


@pytest.mark.long
def test_approved_trial_is_undone(builder: Project) -> None:
    before = own(builder.folder)
    script(builder, calls(shell("sh build.sh")), "done")
    assert builder.forge("run", "worker.yaml", "go", "-p", "--on-ask", "park").returncode == 10
    assert builder.forge("run", "worker.yaml", "-r", "last", "-p", "-y").returncode == 0
    assert not (builder.folder / "old").exists()
    assert not sessions(builder)[0].with_suffix(".trials").exists()
    assert builder.forge("undo").returncode == 0
    builder.write("worker.yaml", WORKER)
    assert own(builder.folder) == before


def cut_off(builder: Project, cli) -> Path:
    """Work, and leave a folder `begun` half made, as a process does that is killed; the folder of its trial."""
    work(builder, cli, calls(shell("sh -c 'echo x > made'")))
    trial = sessions(builder)[0].with_suffix(".trials") / "call"
    trial.mkdir(parents=True)
    after = {"kind": "folder", "mode": 0o755, "owner": [os.getuid(), os.getgid()]}
    kept = {
        "roots": {},
        "changes": [{"zone": str(builder.folder), "parts": ["begun"], "after": after}],
    }
    (trial / "changes.json").write_text(json.dumps(kept), "utf-8")
    (trial / "journal").write_text("after")
    return trial


@pytest.mark.parametrize(
    "command", [("undo", "--list"), ("run", "worker.yaml", "go", "-y")], ids=("undo", "run")
)
def test_interrupted_changes_are_completed_by_the_next_start(
    builder: Project, cli, command
) -> None:
    trial = cut_off(builder, cli)
    told = cli(*command)
    assert "1 interrupted change completed" in told.err
    assert (builder.folder / "begun").is_dir()
    assert not trial.parent.exists()


def test_interrupted_changes_are_ignored_by_reading_commands(builder: Project, cli) -> None:
    trial = cut_off(builder, cli)
    for command in (
        ("approve", "worker.yaml", "shell", "command=ls"),
        ("worker", "check", "worker.yaml"),
    ):
        assert "cut off" not in cli(*command).err
    assert trial.exists()
    assert not (builder.folder / "begun").exists()


@pytest.mark.parametrize("line", ["python3 -m unittest", "wc app.py", "ls | head -3"])
def test_line_of_a_rule_set_leaves_only_undoable_changes(builder: Project, cli, line: str) -> None:
    rules = "rules: [{use: reading}, {use: testing}]"
    builder.write("worker.yaml", WORKER.replace("shell: {}", f"shell: {{{rules}}}"))
    builder.write(
        "test_app.py", "import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n"
    )
    write = call("write_file", path="app.py", content="changed\n")
    script(builder, calls(write), calls(shell(line)), "done")
    done = cli("run", "worker.yaml", "go", "-p")
    assert (done.code, done.out) == (0, "done\n"), done
    done = cli("undo")
    assert (done.code, done.err) == (0, ""), done
    assert builder.read("app.py") == "one\ntwo\n"
