"""Paths that are not ordinary files: pipes, devices, overlong names, and folders without access.

Covers forge_cli.record.target.
"""

import json
import os
from collections.abc import Callable

import pytest

from tests.support.command_line import Done
from tests.support.owner import as_owner

WAYS = {
    "worker": (["run", "ODD.yaml", "go"], 3),
    "worker check": (["worker", "check", "ODD.yaml"], 3),
    "worker show": (["worker", "show", "ODD.yaml"], 3),
    "approve": (["approve", "ODD.yaml", "peek"], 3),
    "schema": (["run", "worker.yaml", "go", "--output-schema", "ODD.json"], 3),
    "attachment": (["run", "worker.yaml", "go", "--attach", "ODD.txt"], 2),
    "script": (["run", "worker.yaml", "go", "-m", "script:ODD.yaml"], 3),
    "record": (["run", "worker.yaml", "go", "--record", "ODD.jsonl"], 2),
    "replayed": (["run", "worker.yaml", "--replay", "ODD.jsonl"], 3),
    "replay": (["replay", "ODD.jsonl"], 3),
    "resumed": (["run", "worker.yaml", "-r", "ODD.jsonl"], 3),
    "session": (["sessions", "show", "./ODD.jsonl"], 3),
    "exported": (["sessions", "export", "./ODD.jsonl"], 3),
    "against": (["approve", "worker.yaml", "--against", "./ODD.jsonl"], 3),
    "tested": (["tools", "test", "./ODD.py"], 2),
    "tools.py": (["run", "odd_tools.yaml", "go"], 3),
    "tools.py, looked at": (["tools", "list", "odd_tools.yaml"], 3),
    "plugin": (["run", "odd_plugin.yaml", "go"], 3),
    "config": (["run", "worker.yaml", "go"], 3),
    "tool.yaml": (["tools", "build", "odd"], 3),
    "entrypoint": (["tools", "build", "entry"], 3),
}


@pytest.fixture(params=["pipe", "device"])
def odd(request):
    """Make a name that is no file."""

    def make(path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")

    return make


@pytest.mark.few(7)
@pytest.mark.parametrize("way", WAYS)
def test_special_file_is_reported_without_blocking(cli, tester, odd, way: str) -> None:
    args, code = WAYS[way]
    for word in args:
        if "ODD" in word:
            odd(tester.folder / word.rpartition(":")[2])
    match way:
        case "config":
            odd(tester.home / "config.yaml")
        case "tool.yaml":
            odd(tester.home / "tools/odd/tool.yaml")
        case "entrypoint":
            odd(tester.home / "tools/entry/entry.py")
            (tester.home / "tools/entry/tool.yaml").write_text(
                "name: entry\ndescription: d\nentrypoint: entry.py\n"
            )
        case "tools.py" | "tools.py, looked at":
            odd(tester.folder / "odd_tools.py")
            section = "{custom: {module: ./odd_tools.py, tools: [a]}}"
            tester.write(
                "odd_tools.yaml", f"name: w\nmodel: script:script.yaml\ntoolsets: {section}\n"
            )
        case "plugin":
            odd(tester.folder / "odd_tools.py")
            tester.write(
                "odd_plugin.yaml", "name: w\nmodel: script:script.yaml\nplugins: [./odd_tools.py]\n"
            )
    done = cli(*args)
    assert done.code == code, done
    assert done.err
    assert "internal error" not in done.err


NOT_THERE = {
    "worker": (["run", "./PATH.yaml", "go"], 3, "PATH.yaml: "),
    "answer": (["run", "worker.yaml", "go", "-o", "PATH"], 2, "-o PATH: it cannot be written: "),
    "record": (
        ["run", "worker.yaml", "go", "--record", "PATH"],
        2,
        "--record PATH: it cannot be written: ",
    ),
    "folder": (["run", "worker.yaml", "go", "-C", "PATH"], 2, "-C PATH: there is no such folder"),
    "zone": (
        ["run", "worker.yaml", "go", "--add-dir", "PATH"],
        2,
        "--add-dir PATH: there is no such folder",
    ),
    "replayed": (["run", "worker.yaml", "--replay", "PATH"], 3, "there is no "),
    "replay": (["replay", "PATH"], 3, "there is no "),
    "test": (["test", "PATH"], 3, "PATH"),
    "trust": (["trust", "PATH"], 2, ": "),
    "lock": (["lock", "PATH"], 3, "PATH"),
    "batch": (["batch", "worker.yaml", "PATH"], 3, "PATH:1:1: there is no such file or folder"),
    "batch status": (["batch", "status", "PATH"], 3, "PATH:1:1: there is no such batch"),
    "approve": (
        ["approve", "worker.yaml", "--batch", "PATH"],
        2,
        "--batch PATH: there is no such file",
    ),
    "tools test": (["tools", "test", "PATH"], 2, "there is no tool, toolset, worker or file"),
    "plugin": (["plugins", "install", "./PATH"], 2, "there is no file or folder ./PATH"),
}


@pytest.fixture
def bound(cli, tester, tmp_path) -> Callable[..., Done]:
    """Run a command beside a folder that its owner cannot read, with a worker and a schema."""
    tester.write("locked/worker.yaml", "name: x\n")
    tester.write("schema.json", "{}").chmod(0)
    (tester.folder / "locked").chmod(0)

    def forge(*words: str) -> Done:
        assert as_owner(
            lambda: (tmp_path / "done").write_text(json.dumps(list(vars(cli(*words)).values())))
        )
        return Done(*json.loads((tmp_path / "done").read_text()))

    return forge


@pytest.mark.few(12)
@pytest.mark.parametrize("way", NOT_THERE)
@pytest.mark.parametrize("path", ["x" * 300, "locked/y"], ids=["long", "locked"])
def test_path_that_cannot_be_examined_counts_as_missing(bound, path: str, way: str) -> None:
    args, code, problem = NOT_THERE[way]
    done = bound(*(word.replace("PATH", path) for word in args))
    assert done.code == code, done
    assert problem.replace("PATH", path) in done.err
    assert (
        way != "trust"
        or ("permission denied" if "/" in path else "folder\n  check the path") in done.err
    )


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ("run locked go", "locked/worker.yaml: permission denied"),
        ("worker check locked", "locked/worker.yaml: permission denied"),
        (
            "run worker.yaml go --output-schema schema.json",
            "schema.json cannot be read: Permission denied",
        ),
    ],
)
def test_unreadable_files_are_invalid(bound, args: str, problem: str) -> None:
    done = bound(*args.split())
    assert done.code == 3
    assert problem in done.err


@pytest.mark.parametrize("command", ["list", "test"])
def test_unreadable_home_is_reported(bound, monkeypatch, command: str) -> None:
    monkeypatch.setenv("FORGE_HOME", os.path.abspath("locked"))
    done = bound("tools", command)
    assert (done.code, done.out) == (3, "")
    assert "it cannot be read: Permission denied" in done.err


def test_unwritable_home_is_reported(bound, tester, monkeypatch) -> None:
    tester.home.mkdir(mode=0o500, exist_ok=True)
    tester.home.chmod(0o500)
    done = bound("tools", "call", "read_file", "path=src/a.txt")
    assert (done.code, done.out) == (0, "one\ntwo\n"), done
    assert (
        f"warning: zone 'tools': '{tester.home}/tools' cannot be created: Permission denied\n"
        in done.err
    )
    monkeypatch.setenv("FORGE_LOAD_PLUGINS", "none")
    done = bound("tools", "list", "--json")
    assert not [row for row in json.loads(done.out) if "error" in row], done


NAMED = {
    "file": lambda path: None,
    "link": lambda path: (path.rename("real"), path.symlink_to("../real")),
    "two names": lambda path: os.link(path, "real"),
    "folder that may not be written": lambda path: path.parent.chmod(0o500),
}
WRITERS = {"answer": "run worker.yaml go -p -o", "document": "sessions export last -o"}


@pytest.mark.few(5)
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("way", NAMED)
def test_file_rewritten_during_a_run_is_handled(bound, tester, way: str, writer: str) -> None:
    """A full disk keeps the old file; it is rewritten in place only if it cannot be replaced or has two names."""
    bound("run", "worker.yaml", "go", "-p")
    old = tester.write("out/old.md", "older\n")
    old.chmod(0o640)
    NAMED[way](old)
    with open(old) as reader:
        assert bound(*WRITERS[writer].split(), "out/old.md").code == 0
        assert (reader.read() == "older\n") == (way in ("file", "link"))
    assert old.read_text() != "older\n"
    assert (old.is_symlink(), old.stat().st_mode & 0o777) == (way == "link", 0o640)
    assert way in ("file", "folder that may not be written") or old.samefile("real")
