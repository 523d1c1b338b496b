"""Real clusters of processes, shared by most tests, and a worker whose model follows its task."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from forge_cli.testing import Project

CLUSTER = """
import asyncio, json, sys
from distributed import LocalCluster

async def main():
    async with LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=4, asynchronous=True, dashboard_address=None, memory_limit=0,
        silence_logs=50,
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        await asyncio.to_thread(sys.stdin.read)

if __name__ == "__main__":
    asyncio.run(main())
"""
WORKER = """
name: sorter
instructions: You sort things.
model: drawn:model
limits: {max_turns: 6}
plugins: [./model.py]
toolsets:
  custom:
    module: ./tools.py
    tools: [note, pay, linger]
    approval: {default: preApproved, tools: {pay: ask}}
"""
TOOLS = '''
import os
import time
from pathlib import Path

import beside


def note(key: str) -> str:
    """Note that an item was here."""
    return beside.append("notes.txt", key)


def pay(key: str) -> str:
    """Pay for an item."""
    return beside.append("paid.txt", key)


def linger(key: str) -> str:
    """Note who is at work, and stay there for a long time."""
    beside.append("lingers.txt", key)
    Path(f"pid-{key}").write_text(str(os.getppid()))
    time.sleep(600)
    return "left"
'''
BESIDE = """
from pathlib import Path


def append(name, key):
    with Path(name).open("a") as file:
        file.write(f"{key}\\n")
    return f"did {key}"
"""
MODEL = '''
import asyncio
import os
from pathlib import Path

from forge_cli import hookimpl
from forge_cli.errors import ModelError
from forge_cli.events import ToolCall, Usage
from forge_cli.hooks import ModelFactory, TextDelta, TurnEnd


class Drawn:
    """``KEY TOOL...``: calls the tools, one a turn, then says the result of the last call.

    ``hang`` waits until everybody is released, ``flaky`` fails the first time.
    """

    name = "drawn:model"
    context_window = None

    async def stream(self, request):
        key, *tools = next(message.text for message in request.messages if message.role == "user").split()
        made = [call.name for message in request.messages for call in message.calls]
        Path("seen").mkdir(exist_ok=True)
        Path(f"seen/{key}-{os.getpid()}").write_text(str(os.getppid()))
        await asyncio.sleep(0.01)
        usage = Usage(input_tokens=8, output_tokens=2)
        if "hang" in tools and "note" in made and not Path("released").exists():
            Path(f"hangs-{key}").write_text(str(os.getppid()))
            while not Path("released").exists():
                await asyncio.sleep(0.05)
        if "flaky" in tools and "note" in made and not Path(f"flaky-{key}").exists():
            Path(f"flaky-{key}").touch()
            raise ModelError(f"no answer for {key}")
        for tool in tools:
            if tool not in ("hang", "flaky") and tool not in made:
                yield ToolCall(f"call_{tool}", tool, {"key": key})
                yield TurnEnd("tool_use", usage)
                return
        results = [result.text for message in request.messages for result in message.results]
        yield TextDelta(f"done {key}: {results[-1] if results else 'nothing'}")
        yield TurnEnd("end", usage)

    async def aclose(self):
        pass


@hookimpl
def forge_models():
    return [ModelFactory("drawn", lambda name, env: Drawn())]
'''


@dataclass
class Sorter:
    """A project with that worker."""

    project: Project
    cluster: str

    @property
    def folder(self) -> Path:
        return self.project.folder

    def items(self, items: dict[str, str]) -> None:
        rows = ({"id": key, "task": f"{key} {words}".strip()} for key, words in items.items())
        self.project.write("items.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def argv(self, *more: str) -> list[str]:
        return ["batch", "worker.yaml", "items.jsonl", "--executor", f"dask:{self.cluster}", *more]

    def batch(self, *more: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return self.project.forge(*self.argv(*more), **options)

    def start(self, *more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "forge_cli", *self.argv(*more)],
            cwd=self.folder,
            env={**os.environ, "FORGE_HOME": str(self.project.home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.project.read("items.results.jsonl").splitlines()]

    def results(self) -> dict[str, dict[str, Any]]:
        return {line["key"]: line["result"] for line in self.lines()}

    def statuses(self) -> dict[str, str]:
        return {key: result["status"] for key, result in self.results().items()}

    def effects(self, name: str) -> list[str]:
        file = self.folder / name
        return sorted(file.read_text().split()) if file.exists() else []


@contextmanager
def running_cluster(processes: int, **environ: str) -> Iterator[str]:
    """The address of a cluster whose machines have these variables besides, and nothing of the user's."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FORGE_")}
    command = [sys.executable, "-c", CLUSTER, str(processes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**plain, **environ}, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    with running_cluster(3, ONLY_THERE="yes") as address:
        yield address


@pytest.fixture
def sorter(tmp_path: Path, cluster: str) -> Sorter:
    (tmp_path / "project").mkdir()
    project = Project(tmp_path / "project")
    for name, text in (
        ("worker.yaml", WORKER),
        ("tools.py", TOOLS),
        ("beside.py", BESIDE),
        ("model.py", MODEL),
    ):
        project.write(name, text)
    return Sorter(project, cluster)
