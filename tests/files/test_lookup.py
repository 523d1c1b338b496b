"""Workers by name: their places, and valid names."""

from pathlib import Path

import pytest

from forge_cli.files.lookup import (
    SHIPPED,
    NamedWorker,
    WorkerOrigin,
    is_path,
    is_sentence,
    named_workers,
)
from forge_cli.testing import Project

COMES_WITH_FORGE = ["coder", "reviewer", "shell-helper", "writer"]


def test_worker_in_the_folder_precedes_user_and_shipped_ones(project: Project) -> None:
    project.write(".forge/workers/deploy.yaml", "name: deploy")
    project.write(".forge/workers/review/worker.yaml", "name: review")
    project.write(".forge/workers/notes.txt", "not a worker")
    project.write(".forge/workers/empty/readme.md", "not a worker either")
    own = project.home / "workers" / "coder.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nname: coder\n---\n")
    here = project.folder / ".forge" / "workers"
    assert named_workers(project.folder, project.home) == [
        NamedWorker("deploy", WorkerOrigin.PROJECT, here / "deploy.yaml"),
        NamedWorker("review", WorkerOrigin.PROJECT, here / "review" / "worker.yaml"),
        NamedWorker("coder", WorkerOrigin.USER, own),
        *(
            NamedWorker(name, WorkerOrigin.SHIPPED, SHIPPED / f"{name}.yaml")
            for name in COMES_WITH_FORGE
        ),
    ]


def test_yaml_file_precedes_others_of_the_same_name(project: Project) -> None:
    for name in ("a.md", "a.worker", "a.yaml"):
        project.write(f".forge/workers/{name}", "")
    found = [
        worker.path.name
        for worker in named_workers(project.folder, project.home)
        if worker.name == "a"
    ]
    assert found == ["a.yaml", "a.md", "a.worker"]


def test_workers_in_the_home_are_user_workers(tmp_path: Path) -> None:
    (tmp_path / ".forge" / "workers").mkdir(parents=True)
    (tmp_path / ".forge" / "workers" / "mine.yaml").write_text("name: mine")
    found = named_workers(tmp_path, tmp_path / ".forge")
    assert [(worker.name, worker.origin) for worker in found][:1] == [("mine", WorkerOrigin.USER)]


@pytest.mark.parametrize(
    ("text", "path", "sentence"),
    [
        ("coder", False, False),
        ("shell-helper", False, False),
        ("coder.yaml", True, False),
        ("coder.worker", True, False),
        ("./coder", True, True),
        ("fix the bug", False, True),
        ("why?", False, True),
        ("there.txt", True, False),
        ("folder", True, False),
        ("empty", False, False),
        ("seed", True, False),
    ],
)
def test_word_is_a_path_a_name_or_a_task(
    text: str, path: bool, sentence: bool, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.folder)
    project.write("there.txt", "")
    project.write("folder/worker.yaml", "name: folder")
    project.write("empty/other.yaml", "name: other")
    project.write("seed/main.worker", "---\nname: seed\n---\n")
    assert (is_path(text), is_sentence(text)) == (path, sentence)


def test_folder_may_contain_a_main_worker(project: Project) -> None:
    """Under a name, as a path, as a child, and as the worker of the working directory."""
    project.write("script.yaml", "turns: [{text: Here I am.}]")
    script = f"script:{project.folder / 'script.yaml'}"
    for folder in ("seed", "workers/deep", ".forge/workers/named"):
        name = folder.rpartition("/")[2]
        project.write(f"{folder}/main.worker", f"---\nname: {name}\nmodel: {script}\n---\nWork.\n")
    project.write("seed/both/main.worker", "not a worker")
    project.write("seed/both/worker.yaml", f"name: both\nmodel: {script}\n")
    project.write(
        "boss.yaml", "name: boss\ntoolsets: {workers: {allowed: [seed, deep, seed/both]}}\n"
    )
    for worker in ("seed", "./seed", "seed/main.worker", "seed/both"):
        done = project.forge("run", worker, "go", "-p")
        assert (done.returncode, done.stdout) == (0, "Here I am.\n"), done.stderr
    checked = project.forge("worker", "check", "boss.yaml")
    assert checked.returncode == 0, checked.stderr
    [named] = [each for each in named_workers(project.folder, project.home) if each.name == "named"]
    assert named.root == project.folder / ".forge" / "workers"
    project.write("main.worker", f"---\nname: here\nmodel: {script}\n---\nWork.\n")
    done = project.forge("chat", stdin="hello\n")
    assert (done.returncode, done.stdout) == (0, "Here I am.\n"), done.stderr


def test_folder_without_a_worker_lists_possible_files(project: Project) -> None:
    project.write("empty/notes.txt", "")
    done = project.forge("run", "empty", "go")
    assert (done.returncode, done.stderr) == (
        3,
        "forge: empty: this folder has no worker.yaml and no main.worker\n  name a worker file instead\n",
    )
