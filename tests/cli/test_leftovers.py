"""Leftovers of a killed process: the next start or ``forge doctor --clean`` removes them.

Covers forge_cli.record.leftovers.
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from forge_cli.testing import Project, call, calls

WORKER = """
name: builder
model: script:script.yaml
sandbox: {zones: [{name: code, path: ., mode: rw, approval: {write: preApproved, delete: preApproved}}]}
toolsets: {shell: {}}
"""
LINE = (
    "echo big > big; echo begun > begun; until test -s flag; do sleep 0.05; done; echo done > end"
)
TEMPORARY = ".forge-0123456789abcdef.tmp"


@pytest.fixture
def builder(project: Project) -> Project:
    project.write("worker.yaml", WORKER)
    project.write("flag", "")
    say(project, calls(call("shell", command=LINE)), "done")
    project.write(
        "other.yaml", WORKER.replace("script.yaml", "other-script.yaml").replace("builder", "other")
    )
    project.write("other-script.yaml", json.dumps({"turns": [{"text": "well"}]}))
    return project


def say(project: Project, *turns: object) -> None:
    spoken = [{"text": turn} if isinstance(turn, str) else turn for turn in turns]
    project.write("script.yaml", json.dumps({"turns": spoken}))


def trials(builder: Project) -> list[Path]:
    return list((builder.home / "sessions").glob("*.trials/*"))


@contextmanager
def at_work(builder: Project) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command has written a file and continues once the file ``flag`` has content."""
    argv = [sys.executable, "-m", "forge_cli", "run", "worker.yaml", "go", "-p", "-y"]
    with builder.environment():
        process = subprocess.Popen(
            argv, cwd=builder.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
    try:
        deadline = time.monotonic() + 60
        while not list((builder.home / "sessions").glob("*.trials/*/*/upper/begun")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.few(2)
@pytest.mark.needs("overlay")
@pytest.mark.parametrize("next_start", ["run", "resume", "undo", "clean"])
def test_copy_of_a_killed_command_is_removed(builder: Project, cli, next_start: str) -> None:
    with at_work(builder) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
    (trial,) = trials(builder)
    assert "killed commands left 1 item (" in cli("doctor").out
    match next_start:
        case "run":
            assert cli("run", "other.yaml", "hi", "-p").out == "well\n"
        case "resume":
            say(builder, "done")
            cli("run", "worker.yaml", "-r", "last", "-p")
        case "undo":
            cli("undo", "last")
        case "clean":
            done = cli("doctor", "--clean")
            assert (done.code, done.out.startswith(f"removed  trial      {trial} (")) == (
                0,
                True,
            ), done
    assert not trial.parent.exists()
    assert cli("doctor", "--clean").out == "nothing was left behind\n"
    assert not (builder.folder / "begun").exists()


@pytest.mark.needs("overlay")
def test_copy_of_a_running_command_stays(builder: Project, cli) -> None:
    with at_work(builder) as process:
        assert cli("run", "other.yaml", "hi", "-p").out == "well\n"
        done = cli("doctor", "--clean")
        assert done.code == 0
        assert f"process {process.pid} is using its session" in done.out
        assert len(trials(builder)) == 1
        (builder.folder / "flag").write_text("go on")
        assert process.wait(60) == 0
    assert builder.read("end") == "done\n"
    assert cli("doctor", "--clean").out == "nothing was left behind\n"


@pytest.mark.needs("overlay")
def test_trial_that_waits_for_an_answer_stays(builder: Project, cli) -> None:
    say(builder, calls(call("shell", command="echo x > made")), "done")
    assert cli("run", "worker.yaml", "go", "-p", "--on-ask", "park").code == 10
    assert len(trials(builder)) == 1
    assert cli("run", "other.yaml", "hi", "-p").out == "well\n"
    assert cli("doctor", "--clean").out == "nothing was left behind\n"
    assert len(trials(builder)) == 1
    assert cli("run", "worker.yaml", "-c", "-p", "-y").out == "done\n"
    assert builder.read("made") == "x\n"


def staged(folder: Path, path: Path) -> str:
    return f".forge-{sha256(os.fsencode(folder)).hexdigest()[:12]}-{sha256(os.fsencode(path)).hexdigest()[:12]}.tmp"


def test_temporary_files_are_listed_and_removed_unless_they_are_in_use(
    builder: Project, cli
) -> None:
    left = [
        builder.home / "sessions" / TEMPORARY,
        builder.home / TEMPORARY,
        builder.folder / "deep/er" / TEMPORARY,
        builder.folder / "deep" / staged(Path("/gone"), builder.folder / "x"),
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 5000)
    link = builder.folder / staged(Path("/gone"), builder.folder / "link")
    link.symlink_to("worker.yaml")
    others = [
        builder.folder / name
        for name in (".forge-mine.tmp", ".forge-notes", "forge-0123456789abcdef.tmp")
    ]
    for path in others:
        path.write_text("mine")
    parked = builder.folder / f".forge-undo-{'0' * 16}"
    parked.write_text("content")
    with (builder.folder / "deep/er" / TEMPORARY).open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        zone = os.open(builder.folder, os.O_RDONLY)
        fcntl.flock(zone, fcntl.LOCK_SH)
        rows = {row["path"]: row for row in json.loads(cli("doctor", "--clean", "--json").out)}
        os.close(zone)
    assert {path for path, row in rows.items() if row["removed"]} == {str(left[0]), str(left[1])}
    assert rows[str(left[0])]["bytes"] >= 5000
    assert rows[str(left[2])]["kept"] == rows[str(left[3])]["kept"] == "a process is using it"
    assert "undo" in rows[str(parked)]["kept"]
    assert cli("doctor", "--clean").code == 0
    assert not [path for path in (*left, link) if os.path.lexists(path)]
    assert all(path.exists() for path in (*others, parked))
