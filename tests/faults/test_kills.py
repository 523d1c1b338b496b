"""Killed at any system call that changes a file: sessions stay whole, nothing is done twice, and the end is reached."""

import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from forge_cli.record.log import broken_link, read_session
from forge_cli.testing import Project
from tests.support.faults.effects import TOOLS

KILLED = Path(__file__).parents[1] / "support/faults/killed.py"
WORKER = """
name: busy
model: script:script.yaml
sandbox: {zones: [{name: work, path: ./work, mode: rw, approval: {write: preApproved, delete: preApproved}}]}
toolsets: {filesystem: {}, custom: {module: ./tools.py, tools: [leave]}}
"""
CHANGES = """
turns:
  - calls:
      - {tool: write_file, input: {path: /work/old.txt, content: x}}
      - {tool: write_file, input: {path: /work/a/b/new.txt, content: x}}
      - {tool: delete_file, input: {path: /work/gone.txt}}
      - {tool: delete_file, input: {path: /work/empty}}
      - {tool: write_file, input: {path: /work/empty, content: x}}
      - {tool: delete_file, input: {path: /work/link}}
      - {tool: write_file, input: {path: /work/link, content: x}}
  - text: done
"""
TURNS = 4
MOST = 400
"""More calls than any of these commands makes."""


@pytest.fixture
def busy(project: Project) -> Project:
    project.write("tools.py", TOOLS)
    project.write("left", "")
    project.write("worker.yaml", WORKER)
    turns = "".join(
        f"  - calls: [{{tool: leave, input: {{word: w{n}}}}}, "
        f"{{tool: write_file, input: {{path: /work/f{n}.txt, content: x}}}}]\n"
        for n in range(TURNS)
    )
    project.write("script.yaml", f"turns:\n{turns}  - text: done\n")
    project.write(
        "changes.yaml",
        WORKER.replace("script.yaml", "changes-script.yaml").replace("busy", "changing"),
    )
    project.write("changes-script.yaml", CHANGES)
    return project


def killed(busy: Project, number: int, *argv: str) -> tuple[int, int]:
    """The exit code of forge that is killed at that call, and how many calls it came to."""
    counts = busy.home.with_name("counts")
    command = [sys.executable, str(KILLED), str(number), str(counts), *argv]
    with busy.environment():
        done = subprocess.run(
            command, cwd=busy.folder, stdin=subprocess.DEVNULL, timeout=60, check=False
        )
    return done.returncode, int(counts.read_text())


def logs(busy: Project) -> list[Path]:
    """The logs with at least one line: an empty one is not a session."""
    return [
        path for path in sorted((busy.home / "sessions").glob("*.jsonl")) if path.stat().st_size
    ]


def check_logs(busy: Project, at_least: int, number: int) -> None:
    """Every session can be read, and has the lines that it must have."""
    for path in logs(busy):
        log = read_session(path)
        assert (broken_link(log), len(log.lines) >= at_least) == (None, True), number
    done = busy.forge("sessions", "verify")
    assert (done.returncode, done.stderr) == (0, ""), number


def has_ended(busy: Project) -> bool:
    """Return True if the log has the end of the session, so that nothing is left to resume."""
    ends = [read_session(path).lines[-1].data for path in logs(busy)]
    return any(
        line["type"] == "sessionEnd" and line["result"]["response"] == "done" for line in ends
    )


def resume_to_the_end(busy: Project, number: int) -> None:
    ended = has_ended(busy)
    for _ in range(4):
        begun = any('"type": "message"' in path.read_text() for path in logs(busy))
        done = busy.forge("run", "worker.yaml", "-c" if begun else "go", "-p")
        if ended or (done.returncode == 0 and "done" in done.stdout):
            break
    assert (done.returncode, done.stdout) == ((2, "") if ended else (0, "done\n")), (
        number,
        done.stderr,
    )
    counts = Counter(busy.read("left").split())
    assert max(counts.values(), default=0) <= 1, (number, counts)
    kept = (".jsonl", ".undo", ".lock", ".tmp", ".json")
    assert {entry.suffix for entry in (busy.home / "sessions").iterdir()} <= {*kept}, number
    check_logs(busy, 1, number)


def survive_run(busy: Project, number: int) -> int:
    code, count = killed(busy, number, "run", "worker.yaml", "go", "-p")
    assert code == (-9 if number <= count else 0), number
    check_logs(busy, 1, number)
    resume_to_the_end(busy, number)
    return count


def survive_fork(busy: Project, number: int) -> int:
    assert busy.forge("run", "worker.yaml", "go", "-p", "--max-turns", "2").returncode == 5
    whole = len(read_session(logs(busy)[0]).lines)
    code, count = killed(busy, number, "run", "worker.yaml", "-c", "--fork", "-p")
    assert code == (-9 if number <= count else 0), number
    check_logs(busy, whole, number)
    resume_to_the_end(busy, number)
    return count


def survive_undo(busy: Project, number: int) -> int:
    """A half-finished undo is completed the next time, including folders."""
    work = busy.folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    (work / "empty").mkdir(parents=True)
    (work / "link").symlink_to("old.txt")
    for name in ("old.txt", "gone.txt"):
        busy.write(f"work/{name}", name)
    before = tree(work)
    assert busy.forge("run", "changes.yaml", "go", "-p").returncode == 0
    assert tree(work) != before
    code, count = killed(busy, number, "undo")
    assert code == (-9 if number <= count else 0), number
    done = busy.forge("undo")
    assert (done.returncode, tree(work)) == (0, before), (number, done.stderr)
    assert not list((busy.home / "sessions").glob("*.undo")), number
    return count


def tree(folder: Path) -> dict[str, str | None]:
    """Every file below a folder with its content; leftovers of a killed process are removed by the next one."""
    return {
        str(path.relative_to(folder)): path.read_text()
        if path.is_file() and not path.is_symlink()
        else None
        for path in folder.rglob("*")
        if not path.name.startswith(".forge-")
    }


CASES = {"run": survive_run, "fork": survive_fork, "undo": survive_undo}


def moments(count: int, seed: int) -> list[tuple[str, int]]:
    draw = random.Random(seed)
    return [(draw.choice(list(CASES)), draw.randint(1, 60)) for _ in range(count)]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("case", "number"), [("run", 3), ("fork", 4), ("undo", 12), *moments(1, seed=12)]
)
def test_kill_at_a_system_call_leaves_a_consistent_state(
    busy: Project, case: str, number: int
) -> None:
    CASES[case](busy, number)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_filter_handles_every_system_call(busy: Project, case: str) -> None:
    for number in range(1, MOST):
        shutil.rmtree(busy.home / "sessions", ignore_errors=True)
        busy.write("left", "")
        if CASES[case](busy, number) < number:
            return
    pytest.fail(f"more than {MOST} calls")
