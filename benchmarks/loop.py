"""The loop: a worker with one trivial tool against a bare loop on the SDK, with a stand-in API."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from mock_api import mock_api
from table import Row, main, megabytes, take_turns

LIMITS = {10: 2.0, 200: 1.0, 800: 0.25}
"""Limits of the CPU ratio of a turn, by number of turns."""
MEMORY = 60.0
"""Limit in MB for a session of 200 turns."""
SYSTEM, MODEL = "You add numbers.", "claude-mock"
NUMBER = {"type": "integer"}
SCHEMA = {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]}
TOOLS: list[Any] = [{"name": "add", "description": "Add two numbers.", "input_schema": SCHEMA}]
TOOLS_PY = 'def add(a: int, b: int) -> int:\n    """Add two numbers."""\n    return a + b\n'
WORKER = f"""
name: adder
instructions: {SYSTEM}
toolsets:
  custom: {{module: ./tools.py, tools: [add], approval: {{default: preApproved}}}}
"""


@dataclass(frozen=True)
class Sample:
    """Figures of one process: CPU milliseconds a turn, peak MB, early and late gaps in milliseconds."""

    cpu: float
    memory: float
    early: float
    late: float


@cache
def certificates() -> ssl.SSLContext:
    """Import during the warm-up, as forge does, so that neither loop pays for it."""
    import httpx2

    return httpx2.create_ssl_context()


async def bare(url: str, turns: int) -> None:
    """Run a minimal loop: raw events of the SDK, plain dictionaries, nothing kept."""
    import anthropic

    messages: list[Any] = [{"role": "user", "content": "go"}]
    http = anthropic.DefaultAsyncHttpxClient(verify=certificates())
    async with anthropic.AsyncAnthropic(api_key="x", base_url=url, http_client=http) as client:
        for _ in range(turns):
            blocks: list[dict[str, Any]] = []
            pieces: list[str] = []
            async for event in await client.messages.create(
                model=MODEL,
                max_tokens=8192,
                system=SYSTEM,
                tools=TOOLS,
                messages=messages,
                stream=True,
            ):
                match event.type:
                    case "content_block_start":
                        blocks.append(event.content_block.to_dict())
                        pieces = []
                    case "content_block_delta" if event.delta.type == "text_delta":
                        pieces.append(event.delta.text)
                    case "content_block_delta" if event.delta.type == "input_json_delta":
                        pieces.append(event.delta.partial_json)
                    case "content_block_stop" if blocks[-1]["type"] == "text":
                        blocks[-1]["text"] = "".join(pieces)
                    case "content_block_stop":
                        blocks[-1]["input"] = json.loads("".join(pieces))
            messages.append({"role": "assistant", "content": blocks})
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": block["id"],
                    "content": str(sum(block["input"].values())),
                }
                for block in blocks
                if block["type"] == "tool_use"
            ]
            messages.append({"role": "user", "content": results})


async def forge(url: str, turns: int) -> None:
    """Run a worker with a record that is not written and one subscriber."""
    from forge_cli.engine.runtime.runtime import WorkerRuntime
    from forge_cli.engine.runtime.wiring import Wiring
    from forge_cli.files.worker import Limits, load_worker

    os.environ["ANTHROPIC_BASE_URL"] = url
    runtime = WorkerRuntime(
        worker=load_worker("worker.yaml"),
        model=f"anthropic:{MODEL}",
        limits=Limits(max_turns=turns),
        on_event=lambda event: None,
        wiring=Wiring(sinks=(lambda line: None,)),
    )
    async with runtime:
        result = await runtime.run("go")
    if result.turns != turns or not result.success:
        raise SystemExit(f"the worker did not finish: {result}")


LOOPS: dict[str, Callable[[str, int], Awaitable[None]]] = {"bare": bare, "forge": forge}


async def child(loop: str, url: str, turns: int) -> None:
    """Warm up, then measure the CPU of one conversation."""
    await LOOPS[loop](f"{url}/{uuid.uuid4().hex}-3", 3)
    name = f"{uuid.uuid4().hex}-{turns}"
    begin = time.process_time()
    await LOOPS[loop](f"{url}/{name}", turns)
    cpu = (time.process_time() - begin) / turns * 1000
    print(json.dumps([name, cpu, megabytes(resource.getrusage(resource.RUSAGE_SELF))]))


def converse(loop: str, url: str, turns: int, folder: str) -> Sample:
    environment = {
        **os.environ,
        "ANTHROPIC_API_KEY": "x",
        "FORGE_HOME": f"{folder}/home",
        "NO_PROXY": "127.0.0.1",
    }
    command = [sys.executable, str(Path(__file__).resolve()), "--child", loop, url, str(turns)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    name, cpu, peak = json.loads(done.stdout)
    with urlopen(f"{url}/{name}") as answer:
        gaps = [gap * 1000 for gap in json.load(answer)]
    return Sample(cpu, peak, statistics.median(gaps[4:14]), statistics.median(gaps[-10:]))


def collect(rounds: int) -> dict[tuple[str, int], list[Sample]]:
    with tempfile.TemporaryDirectory() as folder, mock_api() as url:
        Path(folder, "worker.yaml").write_text(WORKER)
        Path(folder, "tools.py").write_text(TOOLS_PY)
        # Without a home forge cannot keep the list of installed plugins, and each runtime takes 15 ms to make it anew.
        Path(folder, "home").mkdir()
        both = [(loop, turns) for turns in LIMITS for loop in LOOPS]
        return take_turns(
            {(loop, turns): partial(converse, loop, url, turns, folder) for loop, turns in both},
            rounds,
        )


def measure(rounds: int) -> list[Row]:
    """Compare the minimum of each figure, because noise only adds to it."""
    samples = collect(rounds)

    def least(loop: str, turns: int, figure: str) -> float:
        return min(float(getattr(sample, figure)) for sample in samples[loop, turns])

    def row(what: str, mine: float, floor: float, limit: float, unit: str) -> Row:
        return Row(what, mine / floor, limit, f"{mine:.2f} / {floor:.2f} {unit}")

    rows = []
    for turns, limit in LIMITS.items():
        mine, floor = least("forge", turns, "cpu"), least("bare", turns, "cpu")
        rows.append(row(f"CPU a turn, {turns} turns, x bare SDK loop", mine, floor, limit, "ms"))
    early, late = least("forge", 800, "early"), least("forge", 800, "late")
    rows.append(row("gap of turn 800, x gap of turn 10", late, early, 2.0, "ms"))
    rows.append(Row("memory, 200 turns, MB", least("forge", 200, "memory"), MEMORY))
    memory = least("forge", 800, "memory"), least("bare", 800, "memory")
    rows.append(row("memory, 800 turns, x bare SDK loop", *memory, 1.0, "MB"))
    return rows


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--child", loop, url, turns]:
            asyncio.run(child(loop, url, int(turns)))
        case _:
            main(measure, rounds=3)
