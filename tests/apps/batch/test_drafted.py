"""``forge batch --draft``: each item works on a draft of its own.

Covers forge_cli.apps.batch.drafted.
"""

import json
from typing import Any

import pytest

from forge_cli.testing import Project, call, calls
from tests.support.logs import script

pytestmark = [pytest.mark.needs("overlay")]

WORKER = """
name: drafter
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw}]}
toolsets: {filesystem: {}}
"""


@pytest.fixture
def drafter(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("in.jsonl", '{"id": "a"}\n{"id": "b"}\n')
    script(project, calls(call("write_file", path="made.txt", content="1\n")), "done")
    return project


def batch(project: Project, *flags: str) -> list[dict[str, Any]]:
    done = project.forge(
        "batch",
        "worker.yaml",
        "in.jsonl",
        "--task",
        "Do {id}",
        "--draft",
        "-o",
        "out.jsonl",
        *flags,
    )
    assert done.returncode == 0, done
    lines = (project.folder / "out.jsonl").read_text().splitlines()
    return sorted(map(json.loads, lines), key=lambda row: row["key"])


def test_each_item_has_its_own_draft(drafter: Project) -> None:
    rows = batch(drafter)
    assert [row["result"]["response"] for row in rows] == ["done", "done"]
    found = json.loads(drafter.forge("drafts", "list", "--json").stdout)
    assert {row["result"]["draft"]["id"] for row in rows} == {each["id"] for each in found}
    assert {row["result"]["sessionId"] for row in rows} == {each["session"] for each in found}
    assert [each["changes"][0]["path"] for each in found] == ["made.txt", "made.txt"]
    assert not (drafter.folder / "made.txt").exists()
    # A batch that is complete begins no other draft.
    batch(drafter)
    assert len(json.loads(drafter.forge("drafts", "list", "--json").stdout)) == 2


def test_folder_of_each_item_is_the_zone_of_its_draft(drafter: Project) -> None:
    rows = batch(drafter, "--each-in", "items")
    for row in rows:
        draft = row["result"]["draft"]
        assert [each["path"] for each in draft["changes"]] == ["made.txt"]
        assert drafter.forge("drafts", "apply", draft["id"]).returncode == 0
    assert sorted(str(each.parent.name) for each in drafter.folder.rglob("made.txt")) == ["a", "b"]


def test_worker_that_cannot_open_fails_every_item_with_its_reason(drafter: Project) -> None:
    drafter.write("worker.yaml", WORKER.replace("mode: rw", "mode: ro"))
    done = drafter.forge("batch", "worker.yaml", "in.jsonl", "--task", "Do {id}", "--draft")
    assert done.returncode != 0
    assert "there is nothing to draft" in done.stderr
    assert "Traceback" not in done.stderr


def test_other_executors_are_refused(drafter: Project) -> None:
    done = drafter.forge("batch", "worker.yaml", "in.jsonl", "--draft", "--executor", "dask")
    assert done.returncode == 2
    assert "--draft and --executor contradict each other" in done.stderr
