"""Forked processes behave like started ones: the same input, output and exit code."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .warm import Warm

LOOK = """
import os, sys
print(__name__, sys.argv, os.getcwd(), sorted(os.environ), sys.stdin.read())
print(sys.path[0], [each for each in sys.path if each.endswith("/site")])
print(sys.stdin.isatty(), sys.stdin.fileno(), [each.encoding for each in (sys.stdin, sys.stdout, sys.stderr)])
print("\\udc80", file=sys.stderr)
"""


def both(warm: Warm, *words: str | bytes, **options: Any) -> list[tuple[int, bytes, bytes]]:
    """Return the results of a command in a started and in a forked process."""
    pipes = {"input": b"given", "capture_output": True, "timeout": 60, "check": False, **options}
    ends = (subprocess.run([python, *words], **pipes) for python in (sys.executable, warm.python))
    return [(done.returncode, done.stdout, done.stderr) for done in ends]


@pytest.mark.parametrize(
    "code",
    [
        LOOK,
        "print('half', end=''); raise SystemExit(7)",
        "import sys; sys.exit('a sentence')",
        "import os; os.kill(os.getpid(), 9)",
        "import atexit, threading; atexit.register(print, 'last'); threading.Timer(0.05, print, ['later']).start()",
        "import os; os.write(1, b'bytes'); os._exit(300 & 255)",
        "import mine; print(mine.HERE)",
        "import signal; print([signal.getsignal(number) for number in (2, 13, 15, 17)])",
    ],
)
def test_forked_process_behaves_like_a_started_one(warm: Warm, tmp_path: Path, code: str) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.py").write_text("HERE = 1")
    env = {"PATH": os.environ["PATH"], "ONLY": "this", "PYTHONPATH": "site", "LANG": "C.UTF-8"}
    alone, forked = both(warm, "-c", code, "a b", b"\xff", cwd=tmp_path, env=env)
    assert forked == alone


def test_forked_process_runs_forge(warm: Warm, tmp_path: Path) -> None:
    alone, forked = both(warm, "-m", "forge_cli", "worker", "check", "nowhere.yaml", cwd=tmp_path)
    assert forked == alone
    assert (forked[0], b"nowhere.yaml" in forked[2]) == (3, True)


def test_forked_process_ends_with_its_client(warm: Warm, tmp_path: Path) -> None:
    """Its end of a pipe closes, because nothing else keeps the pipe open."""
    reader, writer = os.pipe()
    code = "import os, time; os.write(1, b'begun'); time.sleep(60)"
    with open(reader, "rb", buffering=0) as pipe:
        process = subprocess.Popen([warm.python, "-c", code], stdout=writer)
        os.close(writer)
        assert pipe.read(5) == b"begun"
        process.send_signal(signal.SIGKILL)
        assert (process.wait(20), pipe.read()) == (-signal.SIGKILL, b"")


def test_client_that_leaves_early_does_not_stop_the_server(warm: Warm) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(warm.place / "socket"))
    assert (
        subprocess.run(
            [warm.python, "-c", "print(1)"], capture_output=True, timeout=60, check=True
        ).stdout
        == b"1\n"
    )
