"""Output that cannot be written: the work continues or ends in order, and the log is complete.

Covers forge_cli.process.streams, forge_cli.cli.output.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from forge_cli.testing import Project

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")


@pytest.fixture
def forge(tester: Project):
    """Run the worker in a process with these streams; return its end and its log."""

    def run(*words: str, stdout: object = subprocess.PIPE, stderr: object = subprocess.PIPE):
        done = subprocess.run(
            [sys.executable, "-m", "forge_cli", "run", "worker.yaml", "go", *words],
            cwd=tester.folder,
            env={**os.environ, "FORGE_HOME": str(tester.home)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            timeout=60,
            check=False,
        )
        (log,) = (tester.home / "sessions").glob("*.jsonl")
        return done, [json.loads(line) for line in log.read_text().splitlines()]

    return run


@pytest.fixture
def unread():
    """A pipe whose reader has left."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.long
@needs_full
@pytest.mark.parametrize("trace", ["quiet", "normal", "debug"])
def test_full_standard_error_does_not_stop_the_work(forge, trace: str) -> None:
    with FULL.open("w") as full:
        done, lines = forge("--trace", trace, stderr=full)
    assert (done.returncode, done.stdout) == (0, "Last words: go\n")
    assert (lines[-1]["type"], lines[-1]["result"]["status"]) == ("sessionEnd", "completed")


@pytest.mark.long
def test_unread_standard_error_does_not_stop_the_work(forge, unread: int) -> None:
    done, lines = forge("--trace", "debug", stderr=unread)
    assert (done.returncode, done.stdout) == (0, "Last words: go\n")
    assert lines[-1]["type"] == "sessionEnd"


@pytest.mark.long
@pytest.mark.few(1)
@needs_full
@pytest.mark.parametrize("words", [(), ("--output-format", "json")])
def test_answer_that_cannot_be_written_is_in_the_session(forge, words: tuple[str, ...]) -> None:
    with FULL.open("w") as full:
        done, lines = forge("-p", *words, stdout=full)
    assert lines[-1]["result"]["response"] == "Last words: go"
    assert (done.returncode, done.stderr) == (
        1,
        "forge: standard output cannot be written: No space left on device\n"
        f"  forge sessions show {lines[0]['session']} shows what was done\n",
    )


@pytest.mark.long
@needs_full
def test_unwritable_event_stream_ends_the_work_in_order(forge) -> None:
    with FULL.open("w") as full:
        done, lines = forge("-p", "--json", stdout=full)
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1,
        "forge: standard output cannot be written: No space left on device",
    )
    assert (lines[-1]["type"], lines[-1]["result"]["status"]) == ("sessionEnd", "interrupted")
    started = [line["toolCallId"] for line in lines if line["type"] == "toolStarted"]
    assert started == [line["toolCallId"] for line in lines if line["type"] == "toolResult"]


@pytest.mark.long
def test_closed_pipe_ends_the_work_in_order(forge, unread: int) -> None:
    done, lines = forge("-p", "--json", stdout=unread)
    assert done.returncode == 1
    assert done.stderr.startswith("forge: standard output cannot be written: its reader has left\n")
    assert (lines[-1]["type"], lines[-1]["result"]["status"]) == ("sessionEnd", "interrupted")


@pytest.mark.long
@needs_full
def test_startup_error_is_reported_despite_a_full_output(forge, tester: Project) -> None:
    with FULL.open("w") as full:
        forge("-p")
        tester.write("worker.yaml", "name: [")
        done, _ = forge("-p", "--output-format", "json", stdout=full)
    assert done.returncode == 3
    assert "worker.yaml:1:" in done.stderr
