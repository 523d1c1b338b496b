"""Caching: the share of its input that a growing conversation does not read from the provider's cache."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from loop import TOOLS_PY, WORKER
from mock_api import events
from table import Row, main

from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.files.worker import Limits, load_worker

ROOT = Path(__file__).resolve().parent.parent
TURNS, AFTER = 30, 5
LIMIT = 0.05
LONG = "You add numbers. " * 600
"""Instructions of the worker; providers do not cache a short prompt."""

sys.path.append(str(ROOT / "tests/models/anthropic"))
from cache import PromptCache, share_read  # noqa: E402 the stand-in of the tests counts as the real one does


@contextmanager
def counting_api(cache: PromptCache) -> Iterator[str]:
    """Yield the address of an API that computes cache usage from each request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            usage = cache.count(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            turn = len(cache.usages)
            first, *others = events(turn, last=turn == TURNS)
            message = (
                {**first["message"], "usage": usage} if isinstance(first["message"], dict) else {}
            )
            told = ({**first, "message": message}, *others)
            body = "".join(
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told
            ).encode()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def converse(folder: Path) -> None:
    worker, limits = load_worker(folder / "worker.yaml"), Limits(max_turns=TURNS)
    runtime = WorkerRuntime(
        worker=worker, model="anthropic:claude-mock", limits=limits, workspace=folder
    )
    async with runtime:
        result = await runtime.run("go")
    if not result.success:
        raise SystemExit(f"the worker did not finish: {result}")


def measure(rounds: int) -> list[Row]:
    """Measure one conversation; the result has no noise."""
    cache = PromptCache()
    with tempfile.TemporaryDirectory() as name, counting_api(cache) as url:
        folder = Path(name)
        (folder / "worker.yaml").write_text(WORKER.replace("You add numbers.", LONG))
        (folder / "tools.py").write_text(TOOLS_PY)
        os.environ |= {
            "FORGE_HOME": f"{name}/home",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "x",
        }
        os.environ["NO_PROXY"] = "127.0.0.1"
        asyncio.run(converse(folder))
    fresh = [1 - share_read(usage) for usage in cache.usages[AFTER:]]
    detail = f"{len(cache.usages)} turns, {cache.usages[-1]['cache_read_input_tokens']} tokens read in the last"
    return [Row("share of input not from the cache after turn 5", max(fresh), LIMIT, detail)]


if __name__ == "__main__":
    main(measure, rounds=1)
