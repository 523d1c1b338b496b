"""The first request: from the start of ``forge run``, against the import of the SDK alone."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from table import Row, Sample, best, main, ratio, take_turns

FORGE = str(Path(sys.executable).with_name("forge"))
FLOOR = [sys.executable, "-c", "import anthropic"]
RUN = [FORGE, "run", "worker.yaml", "go", "-p", "-m", "anthropic:claude-haiku-5-5"]
LIMIT = 0.35
TOOLS_PY = 'def add(a: int, b: int) -> int:\n    """Add two numbers."""\n    return a + b\n'
WORKER = """
name: adder
instructions: You add numbers.
toolsets:
  custom: {module: ./tools.py, tools: [add]}
"""


def floor(folder: str, environment: dict[str, str]) -> Sample:
    begin = time.perf_counter()
    cpu = _cpu(subprocess.Popen(FLOOR, cwd=folder, env=environment))
    return Sample(cpu, time.perf_counter() - begin)


def first_request(folder: str, environment: dict[str, str]) -> Sample:
    """Wait for the whole request, then end the process so that nothing later counts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}"}
        begin = time.perf_counter()
        process = subprocess.Popen(
            RUN, cwd=folder, env={**environment, **address}, stdin=subprocess.DEVNULL
        )
        line, _ = server.accept()
        with line:
            _receive(line)
            wall = time.perf_counter() - begin
            process.kill()
        return Sample(_cpu(process), wall)


def _receive(line: socket.socket) -> None:
    data = b""
    while b'"messages":' not in data or not data.endswith(b"]}"):
        more = line.recv(65536)
        if not more:
            raise SystemExit(f"the request broke off: {data[-200:]!r}")
        data += more
    if not data.startswith(b"POST /v1/messages"):
        raise SystemExit(f"no request of ours: {data[:200]!r}")


def _cpu(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process to end, and return its own resource usage."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def measure(rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "worker.yaml").write_text(WORKER)
        Path(folder, "tools.py").write_text(TOOLS_PY)
        environment = {
            **os.environ,
            "ANTHROPIC_API_KEY": "x",
            "FORGE_HOME": f"{folder}/home",
            "NO_PROXY": "127.0.0.1",
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        actions = {
            action: partial(action, folder, environment) for action in (floor, first_request)
        }
        taken = take_turns(actions, rounds, warm_up=1)
    return [
        ratio(
            "first request, x import anthropic",
            best(taken[first_request]),
            best(taken[floor]),
            LIMIT,
        )
    ]


if __name__ == "__main__":
    main(measure, rounds=10, at_least=5)
