"""``forge test``: the records beside workers are their tests.

Covers forge_cli.engine.runtime.repeat.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forge_cli.files.home import forge_home
from forge_cli.testing import Project

WORKER = """
name: {name}
model: script:script.yaml
sandbox: {{zones: [{{name: data, path: ., mode: rw}}]}}
toolsets: {{filesystem: {{}}}}
"""
SCRIPT = """
turns:
  - calls:
      - {tool: read_file, input: {path: /data/in.txt}}
      - {tool: write_file, input: {path: /data/out.txt, content: x}}
  - text: Done.
"""
Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def copier(project: Project, cli: Cli) -> Project:
    """A worker with one recorded test, as in a fresh checkout."""
    project.write("copier/worker.yaml", WORKER.format(name="copier"))
    project.write("copier/script.yaml", SCRIPT)
    project.write("copier/in.txt", "hello")
    (project.folder / "copier/tests").mkdir()
    done = cli(
        "run", "copier", "copy", "-p", "-y", "-C", "copier", "--record", "copier/tests/copy.jsonl"
    )
    assert (done.code, done.err) == (0, "")
    (project.folder / "copier/out.txt").unlink()
    return project


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "path",
    [[], ["."], ["copier"], ["copier/worker.yaml"], ["copier/tests"], ["copier/tests/copy.jsonl"]],
)
def test_records_are_found_beside_their_worker(cli: Cli, copier: Project, path: list[str]) -> None:
    before = tree(copier.folder)
    done = cli("test", *path)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "ok    copier/tests/copy.jsonl: 2 turns, 2 calls (1 from the record)",
        "1 ok",
    ]
    assert tree(copier.folder) == before


def test_replayed_tests_run_from_inside_the_folder_of_the_worker(
    cli: Cli, copier: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copier.folder / "copier")
    assert cli("test").out.startswith("ok    tests/copy.jsonl: ")
    monkeypatch.chdir(copier.folder / "copier/tests")
    assert cli("test", "copy.jsonl").out == cli("test").out
    assert cli("test").out.startswith("ok    copy.jsonl: ")


def test_worker_may_be_in_any_folder(cli: Cli, copier: Project, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "renamed"
    shutil.copytree(copier.folder / "copier", moved)
    shutil.rmtree(copier.folder / "copier")
    (moved / "worker.yaml").rename(moved / "copier.yaml")
    done = cli("test", str(tmp_path / "elsewhere"))
    assert (done.code, done.out.splitlines()[-1]) == (0, "1 ok")


def test_drift_is_reported_and_counted(cli: Cli, copier: Project) -> None:
    shutil.copytree(copier.folder / "copier", copier.folder / "other")
    copier.write("copier/in.txt", "good bye")
    done = cli("test")
    assert (done.code, done.err) == (9, "")
    assert done.out.splitlines() == [
        'drift copier/tests/copy.jsonl:9:1: drift in turn 1: read_file {"path": "/data/in.txt"} gives another result '
        "in line 2",
        "  recorded: 1: hello",
        "  now:      1: good bye",
        "ok    other/tests/copy.jsonl: 2 turns, 2 calls (1 from the record)",
        "1 ok, 1 drifted; if the change is intended, record again with forge run --record",
    ]


def test_unreadable_records_are_reported_and_counted(cli: Cli, copier: Project) -> None:
    copier.write("copier/tests/broken.jsonl", "hello\n")
    copier.write("strange/worker.yaml", WORKER.format(name="strange"))
    copier.write("strange/tests/copy.jsonl", copier.read("copier/tests/copy.jsonl"))
    done = cli("test")
    assert (done.code, done.err) == (3, "")
    assert "error copier/tests/broken.jsonl:1:1: not a session log\n" in done.out
    assert "error strange/tests/copy.jsonl:1:1: there is no worker 'copier' in " in done.out
    assert done.out.endswith("1 ok, 2 could not be replayed\n")


def test_broken_worker_is_reported(cli: Cli, copier: Project) -> None:
    copier.write("copier/worker.yaml", "name: copier\nnonsense: 1\n")
    done = cli("test")
    assert done.code == 3
    assert "copier/worker.yaml:2:1: " in done.out


def test_drift_determines_the_exit_code_before_unreadable_records(
    cli: Cli, copier: Project
) -> None:
    copier.write("copier/tests/broken.jsonl", "hello\n")
    copier.write("copier/in.txt", "good bye")
    assert cli("test").code == 9


def test_test_result_is_printed_as_json(cli: Cli, copier: Project) -> None:
    copier.write("copier/tests/broken.jsonl", "hello\n")
    done = cli("test", "--json")
    found = json.loads(done.out)
    assert (done.code, found["ok"], found["drift"], found["error"]) == (3, 1, 0, 1)
    assert [(record["file"], record["status"]) for record in found["records"]] == [
        ("copier/tests/broken.jsonl", "error"),
        ("copier/tests/copy.jsonl", "ok"),
    ]
    assert found["records"][1] == {
        "file": "copier/tests/copy.jsonl",
        "worker": "copier",
        "status": "ok",
        "turns": 2,
        "ran": 1,
        "recorded": 1,
        "unsure": 0,
    }
    copier.write("copier/in.txt", "good bye")
    drifted = json.loads(cli("test", "copier/tests/copy.jsonl", "--json").out)["records"][0]
    assert (drifted["status"], drifted["drift"]["recorded"], drifted["drift"]["now"]) == (
        "drift",
        "1: hello",
        "1: good bye",
    )


def test_several_workers_share_a_folder(cli: Cli, copier: Project) -> None:
    copier.write("copier/second.yaml", WORKER.format(name="second"))
    cli(
        "run",
        "copier/second.yaml",
        "copy",
        "-p",
        "-y",
        "-C",
        "copier",
        "--record",
        "copier/tests/second.jsonl",
    )
    (copier.folder / "copier/out.txt").unlink()
    assert cli("test").out.endswith("2 ok\n")
    assert "second.jsonl" not in cli("test", "copier/worker.yaml").out


def test_missing_records_are_not_a_success(cli: Cli, copier: Project) -> None:
    shutil.rmtree(copier.folder / "copier/tests")
    copier.write("elsewhere/tests/data.jsonl", '{"a": 1}\n')
    done = cli("test")
    assert (done.code, done.out) == (2, "")
    assert "or below has a record in a folder tests/ beside it" in done.err
    assert "--record tests/NAME.jsonl" in done.err


def test_hidden_folders_and_those_of_packages_are_left_out(cli: Cli, copier: Project) -> None:
    for name in (".venv", "node_modules"):
        shutil.copytree(copier.folder / "copier", copier.folder / name / "copier")
    assert cli("test").out.endswith("\n1 ok\n")


def test_custom_executables_are_no_drift(cli: Cli, copier: Project, tmp_path: Path) -> None:
    """Files in ~/.forge on this machine are not part of the record, unless --home says so."""
    worker = WORKER.format(name="copier").replace(
        "{filesystem: {}}", "{filesystem: {}, executables: {}}"
    )
    copier.write("copier/worker.yaml", worker)
    record = "copier/tests/copy.jsonl"
    (copier.folder / record).unlink()
    assert cli("run", "copier", "copy", "-p", "-y", "-C", "copier", "--record", record).code == 0
    (copier.folder / "copier/out.txt").unlink()
    assert cli("tools", "new", "mine", "--lang", "sh", "-d", "Mine.").code == 0
    assert cli("test").code == 0
    assert cli("replay", record, "--worker", "copier", "-C", "copier").code == 0
    home = str(forge_home())
    for command in (
        ["test", "--home", home],
        ["replay", record, "--worker", "copier", "--home", home],
    ):
        done = cli(*command)
        assert (done.code, "'mine' is new" in done.out + done.err) == (9, True)
    assert cli("test", "--home", str(tmp_path / "gone")).code == 2
