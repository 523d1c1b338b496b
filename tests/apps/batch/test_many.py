"""A batch with 100,000 completed items: they are recognised, and memory stays small.

Covers forge_cli.apps.batch.store, forge_cli.apps.batch.batch, forge_cli.apps.batch.inputs.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.apps.batch.inputs import BatchInputs, TaskTemplate
from forge_cli.testing import Project

BATCH = ("batch", "worker.yaml", "items.jsonl")
STATUS = ("batch", "status", "items.results.jsonl")
AN_ITEM = 1500
"""Bytes of memory that an item may take; its result alone has more."""


def forge(project: Project, *argv: str) -> tuple[str, int]:
    """Run forge; return its output and its peak memory in bytes."""
    env = {**os.environ, "FORGE_HOME": str(project.home)}
    with subprocess.Popen(
        [sys.executable, "-m", "forge_cli", *argv],
        cwd=project.folder,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        out = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, out
    unit = 1 if sys.platform == "darwin" else 1024
    return out, used.ru_maxrss * unit


def write(project: Project, items: int) -> Path:
    rows = ({"id": f"ticket-{number}", "task": f"sort ticket {number}"} for number in range(items))
    return project.write("items.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def repeat(project: Project, items: Path) -> None:
    """The lines of the one item that is done, again for each of the others."""
    results, journal = (
        project.folder / "items.results.jsonl",
        project.folder / "items.results.jsonl.journal",
    )
    line, start = json.loads(results.read_text()), json.loads(journal.read_text().splitlines()[1])
    with results.open("a") as lines, journal.open("a") as starts:
        for item in list(BatchInputs(str(items), TaskTemplate()))[1:]:
            session = f"{start['session']}-{item.key}"
            done = {
                "key": item.key,
                "input": item.recorded,
                "result": {**line["result"], "session_id": session},
            }
            lines.write(json.dumps(done) + "\n")
            starts.write(
                json.dumps({**start, "key": item.key, "session": session, "input": item.digest})
                + "\n"
            )


def assert_done_items_are_not_held(project: Project, number: int) -> None:
    project.write("worker.yaml", "name: sorter\nmodel: script:script.yaml\n")
    project.write("script.yaml", f"turns: [{{text: '{'sorted ' * 200}'}}]\n")
    write(project, 1)
    _, small = forge(project, *BATCH)
    repeat(project, write(project, number))
    size = (project.folder / "items.results.jsonl").stat().st_size
    for argv in (BATCH, STATUS):
        out, memory = forge(project, *argv)
        assert memory - small < 8e6 + AN_ITEM * number < 8e6 + size, argv
    assert out == f"{number:,} of {number:,} completed; 0 tokens\n"
    assert (project.folder / "items.results.jsonl").stat().st_size == size
    assert len(list((project.home / "sessions").glob("*.jsonl"))) == 1


@pytest.mark.long
def test_completed_items_do_not_use_memory(project: Project) -> None:
    assert_done_items_are_not_held(project, 2_000)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_hundred_thousand_completed_items_do_not_use_memory(project: Project) -> None:
    assert_done_items_are_not_held(project, 100_000)
