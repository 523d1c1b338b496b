"""Batches: items of three turns against a slow server, here and on Dask, and many finished items."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from table import Row, main, megabytes

ITEMS, TURNS, SECONDS, CONCURRENCY = 1000, 3, 0.2, 100
SOME = 200
"""Number of items for the comparison with Dask."""
DONE = 100_000
BATCH = ("batch", "worker.yaml", "items.jsonl", "-m", "openai:mock")
AT_ONCE = ("--concurrency", str(CONCURRENCY))
WORKER = """
name: counter
instructions: You count.
toolsets: {custom: {module: ./tools.py, tools: [add], approval: {default: preApproved}}}
"""
TOOLS = '''
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
'''


def answer(turn: int) -> bytes:
    """Return a stream of the Chat Completions API: a call, or the final text."""
    call = {
        "index": 0,
        "id": f"call_{turn}",
        "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'},
    }
    last = turn >= TURNS - 1
    delta = {"content": "done"} if last else {"tool_calls": [call]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5}
    chunks = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop" if last else "tool_calls"}]},
        {"choices": [], "usage": usage},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return (head + body).encode()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await reader.readuntil(b"\r\n\r\n") if not reader.at_eof() else b"":
        length = next(
            int(line[15:])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        told = json.loads(await reader.readexactly(length))
        await asyncio.sleep(SECONDS)
        writer.write(answer(sum(message["role"] == "assistant" for message in told["messages"])))
        await writer.drain()


async def serve_for_ever() -> None:
    server = await asyncio.start_server(_serve_quietly, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _serve_quietly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await serve(reader, writer)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


@contextmanager
def slow_api() -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).resolve()), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        finally:
            process.terminate()


def forge(folder: str, *words: str, url: str = "") -> tuple[float, float]:
    """Return wall time in seconds and the peak memory of all commands so far."""
    env = {
        **os.environ,
        "FORGE_HOME": f"{folder}/home",
        "OPENAI_BASE_URL": url,
        "NO_PROXY": "127.0.0.1",
    }
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "forge_cli", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return time.monotonic() - began, megabytes(resource.getrusage(resource.RUSAGE_CHILDREN))


def write(folder: str, items: int) -> None:
    Path(folder, "worker.yaml").write_text(WORKER)
    Path(folder, "tools.py").write_text(TOOLS)
    with Path(folder, "items.jsonl").open("w") as file:
        file.writelines(
            json.dumps({"id": str(number), "task": f"count {number}"}) + "\n"
            for number in range(items)
        )


def throughput(rounds: int) -> list[Row]:
    """Compare the best round with the ideal; one item alone gives the cost of starting."""
    alone, took, memory = list[float](), list[float](), 0.0
    with (
        tempfile.TemporaryDirectory() as whole
    ):  # ext4 is slow to make files after many were removed
        for number in range(rounds):
            for items, walls in ((1, alone), (ITEMS, took)):
                folder = f"{whole}/{number}-{items}"
                os.mkdir(folder)
                write(folder, items)
                with slow_api() as url:
                    wall, memory = forge(folder, *BATCH, *AT_ONCE, url=url)
                walls.append(wall)
    ideal, start = ITEMS * TURNS * SECONDS / CONCURRENCY, min(alone) - TURNS * SECONDS
    figures = f"{min(took):.1f} / {ideal:.1f} s for {ITEMS} items, {start:.2f} s of it to start"
    return [
        Row(f"{CONCURRENCY} at once, x ideal", min(took) / ideal, 1.6, figures),
        Row(f"{CONCURRENCY} at once without starting, x ideal", (min(took) - start) / ideal, 1.6),
        Row("memory, MB", memory, 300.0),
    ]


def on_dask() -> list[Row]:
    """Compare an item on a local cluster with one in this process, without the cost of starting."""
    if find_spec("distributed") is None:
        return []
    cost = {executor: _cost_of_an_item(executor) for executor in ("local", "dask")}
    figures = f"{cost['dask']:.0f} / {cost['local']:.0f} ms of CPU an item"
    return [Row("an item on Dask, x local", cost["dask"] / cost["local"], detail=figures)]


def _cost_of_an_item(executor: str) -> float:
    """Return milliseconds of CPU of all processes together."""
    used = []
    for items in (1, 1 + SOME):
        with tempfile.TemporaryDirectory() as folder, slow_api() as url:
            write(folder, items)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            forge(folder, *BATCH, *AT_ONCE, "--executor", executor, url=url)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return (used[1] - used[0]) / SOME * 1000


def many_done() -> list[Row]:
    """Complete one item and repeat its line for all others."""
    with tempfile.TemporaryDirectory() as folder, slow_api() as url:
        write(folder, 1)
        forge(folder, *BATCH, url=url)
        write(folder, DONE)
        _repeat(Path(folder), DONE)
        before = megabytes(resource.getrusage(resource.RUSAGE_CHILDREN))
        resume, memory = forge(folder, *BATCH, url=url)
        status, _ = forge(folder, "batch", "status", "items.results.jsonl")
    return [
        Row(f"status of {DONE} items, s", status, 10.0),
        Row(
            f"resume of {DONE} items that are done, s",
            resume,
            15.0,
            f"memory {max(before, memory):.0f} MB",
        ),
    ]


def _repeat(folder: Path, items: int) -> None:
    from forge_cli.apps.batch.inputs import BatchInputs, TaskTemplate

    results, journal = folder / "items.results.jsonl", folder / "items.results.jsonl.journal"
    line, start = json.loads(results.read_text()), json.loads(journal.read_text().splitlines()[1])
    with results.open("a") as lines, journal.open("a") as starts:
        for item in list(BatchInputs(str(folder / "items.jsonl"), TaskTemplate()))[1:items]:
            session = f"{start['session']}-{item.key}"
            again = {
                "key": item.key,
                "input": item.recorded,
                "result": {**line["result"], "session_id": session},
            }
            lines.write(json.dumps(again) + "\n")
            starts.write(
                json.dumps({**start, "key": item.key, "session": session, "input": item.digest})
                + "\n"
            )


def measure(rounds: int) -> list[Row]:
    return [*throughput(rounds), *on_dask(), *many_done()]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--serve"]:
            asyncio.run(serve_for_ever())
        case _:
            main(measure, rounds=3)
