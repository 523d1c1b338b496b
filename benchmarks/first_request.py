"""The first request as a ratio: from the start of ``forge run`` to the wire, against the import of the SDK alone."""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

FORGE = str(Path(sys.executable).with_name("forge"))
FLOOR = [sys.executable, "-c", "import anthropic"]
RUN = [FORGE, "run", "worker.yaml", "go", "-p", "-m", "anthropic:claude-haiku-5-5"]
LIMIT = 1.15
TOOLS_PY = 'def add(a: int, b: int) -> int:\n    """Add two numbers."""\n    return a + b\n'
WORKER = """
name: adder
instructions: You add numbers.
toolsets:
  custom: {module: ./tools.py, tools: [add]}
"""


@dataclass(frozen=True)
class Sample:
    """One process: seconds of CPU and seconds on the wall."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Row:
    what: str
    measured_as: str
    value: float
    limit: float
    wall_ratio: float
    cpu_ms: float
    floor_ms: float
    ok: bool


def floor(folder: str, environment: dict[str, str]) -> Sample:
    begin = time.perf_counter()
    cpu = _cpu(subprocess.Popen(FLOOR, cwd=folder, env=environment))
    return Sample(cpu, time.perf_counter() - begin)


def first_request(folder: str, environment: dict[str, str]) -> Sample:
    """Until the whole request has arrived; then the process is ended, so that nothing after it counts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.getsockname()[1]}"}
        begin = time.perf_counter()
        process = subprocess.Popen(RUN, cwd=folder, env={**environment, **address}, stdin=subprocess.DEVNULL)
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
    """Wait for the end of a process; returns what it alone has used."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def collect(rounds: int) -> tuple[list[Sample], list[Sample]]:
    """Take turns, so that a noisy minute falls on both alike; the first turn only warms up."""
    floors: list[Sample] = []
    requests: list[Sample] = []
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "worker.yaml").write_text(WORKER)
        Path(folder, "tools.py").write_text(TOOLS_PY)
        environment = {**os.environ, "ANTHROPIC_API_KEY": "x", "FORGE_HOME": f"{folder}/home", "NO_PROXY": "127.0.0.1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(rounds + 1):
            both = floor(folder, environment), first_request(folder, environment)
            if turn:
                floors.append(both[0])
                requests.append(both[1])
    return floors, requests


def judge(floors: list[Sample], requests: list[Sample]) -> Row:
    """The least CPU decides, since noise only adds to it; the median wall time is shown beside it."""
    mine, base = (min(sample.cpu for sample in taken) for taken in (requests, floors))
    wall = statistics.median(s.wall for s in requests) / statistics.median(s.wall for s in floors)
    ratio = mine / base
    return Row("first request", "x import anthropic", ratio, LIMIT, wall, mine * 1000, base * 1000, ratio <= LIMIT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="at least 5")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 5:
        parser.error("--rounds: fewer than 5 say nothing on a noisy machine")
    row = judge(*collect(options.rounds))
    if options.json:
        print(json.dumps(asdict(row), indent=2))
    else:
        print(f"{'what':<16} {'measured as':<20} {'value':>7} {'limit':>7} {'wall':>7} {'cpu ms':>7} {'floor':>7}")
        numbers = f"{row.value:>7.2f} {row.limit:>7.2f} {row.wall_ratio:>7.2f} {row.cpu_ms:>7.0f} {row.floor_ms:>7.0f}"
        print(f"{row.what:<16} {row.measured_as:<20} {numbers}  {'ok' if row.ok else 'over'}")
    return 0 if row.ok else 1


if __name__ == "__main__":
    sys.exit(main())
