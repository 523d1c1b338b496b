"""A power cut at any moment: the log on disk is never behind the effects on disk."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forge_cli.record.log import broken_link, read_session

CUTS = 10
TURNS = 100
WORKER = """
name: writer
model: script:script.yaml
sandbox: {zones: [{name: work, path: ./work, mode: rw, approval: {write: preApproved}}]}
toolsets: {filesystem: {}}
"""
pytestmark = [pytest.mark.long, pytest.mark.needs("loop")]


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, with a worker that has much to write."""
    image = tmp_path / "image"
    with image.open("wb") as stream:
        stream.truncate(48 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    with mounted(image, tmp_path / "disk") as place:
        calls = (
            f"[{{tool: write_file, input: {{path: /work/f{n}.txt, content: x}}}}]"
            for n in range(TURNS)
        )
        turns = "".join(f"  - calls: {call}\n" for call in calls)
        (place / "worker.yaml").write_text(WORKER)
        (place / "script.yaml").write_text(f"turns:\n{turns}  - text: done\n")
        subprocess.run(["sync", "-f", place / "script.yaml"], check=True)
        yield place


def cut(disk: Path, at: int) -> Path:
    """The content of the disk after some written files, as an image, copied while forge is stopped."""
    command = [
        sys.executable,
        "-m",
        "forge_cli",
        "run",
        "worker.yaml",
        "go",
        "-p",
        "--max-turns",
        "999",
    ]
    process = subprocess.Popen(
        command, cwd=disk, env={"FORGE_HOME": str(disk / "home"), "PATH": "/usr/bin:/bin"}
    )
    try:
        deadline = time.monotonic() + 60
        while sum(path.read_text() == "x" for path in (disk / "work").glob("f*")) < at:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        return Path(shutil.copyfile(disk.with_name("image"), disk.with_name("cut")))
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", range(CUTS))
def test_power_cut_loses_no_approval_and_at_most_one_result(disk: Path, number: int) -> None:
    with mounted(cut(disk, 1 + number * 9), disk.with_name("after")) as after:
        (path,) = (after / "home/sessions").glob("*.jsonl")
        log = read_session(path)
        assert broken_link(log) is None
        done = {f"/work/{path.name}" for path in (after / "work").glob("f*")}
        started = {
            line.data["toolCallId"]: line.data["args"]
            for line in log.lines
            if line.type == "toolStarted"
        }
        approved, results = (
            {started[line.data["toolCallId"]]["path"] for line in log.lines if line.type == kind}
            for kind in ("approvalDecided", "toolResult")
        )
        sys.stdout.write(
            f"{len(log.lines)} lines, {len(done)} files, {len(done - results)} without its result\n"
        )
        assert (done - approved, len(done - results) <= 1) == (set(), True)
        argv = ["run", "worker.yaml", "-r", log.session, "-p", "--max-turns", "999"]
        command = [sys.executable, "-m", "forge_cli", *argv]
        env = {"FORGE_HOME": str(after / "home"), "PATH": "/usr/bin:/bin"}
        resumed = subprocess.run(
            command, cwd=after, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert (resumed.returncode, resumed.stdout) == (0, "done\n"), resumed.stderr


@pytest.mark.parametrize("number", range(3))
def test_power_cut_keeps_files_that_undo_needs(disk: Path, number: int) -> None:
    (disk / "work").mkdir()
    for turn in range(TURNS):
        (disk / f"work/f{turn}.txt").write_text("old")
    subprocess.run(["sync", "-f", disk / "work/f0.txt"], check=True)
    image = cut(disk, 1 + number * 20)
    with mounted(image, disk) as after:
        env = {"FORGE_HOME": str(after / "home"), "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-m", "forge_cli", "undo"]
        undone = subprocess.run(
            command, cwd=after, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        left = [path.name for path in (after / "work").glob("f*") if path.read_text() != "old"]
    assert (undone.returncode, left) == (0, []), undone.stdout
