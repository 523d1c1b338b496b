"""A worker that dies at one point of its work: ``crashing.py FOLDER POINT [SESSION]``, as JSON on standard output.

A POINT is ``line:N`` (after line N of the log), ``half:N`` (in the middle of it), ``before:N`` or ``after:N`` (in the
Nth call that writes, before or after its effect), or ``never``.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from forge_cli import WorkerRuntime, load_worker
from forge_cli.core.messages import Delta
from forge_cli.embedding import open_session
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.events import Message
from forge_cli.hooks import ModelEnv, ModelRequest
from forge_cli.models.script import make
from forge_cli.process.signals import in_loop
from forge_cli.record.line import Line
from forge_cli.record.recorder import SessionLog


class Strict:
    """A model that refuses invalid histories like real ones: the next message must have each result."""

    context_window = None

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = inner.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        check(list(request.messages))
        async for delta in self.inner.stream(request):
            yield delta

    async def aclose(self) -> None:
        await self.inner.aclose()


def check(messages: list[Message]) -> None:
    assert messages[0].role == "user", "the history does not start with the user"
    for index, message in enumerate(messages):
        after = messages[index + 1] if index + 1 < len(messages) else None
        if message.role == "tool":
            assert messages[index - 1].calls, "results without calls"
        if message.calls:
            assert after is not None, "the history ends with calls"
            assert [call.id for call in message.calls] == [
                result.call_id for result in after.results
            ], "lost results"
        elif message.role == "assistant":
            assert after is not None, "the history ends with the model's own words"
            assert after.role == "user", "the model speaks twice"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_line(kind: str, number: int, log: SessionLog) -> Any:
    def sink(line: Line) -> None:
        if line.seq != number:
            return
        if kind == "half":
            data = line.text().encode()
            with open(log.path, "ab") as file:
                file.write(data[: len(data) // 2])
        die()

    return sink


async def main(folder: Path, point: str, session_id: str | None) -> dict[str, Any]:
    worker = load_worker(folder / "worker.yaml")
    kind, _, number = point.partition(":")
    with open_session(worker, resume=session_id, workspace=folder) as session:
        assert session.log is not None
        sinks: list[Any] = [session.log]
        if kind in ("line", "half"):
            sinks.insert(0 if kind == "half" else 1, at_line(kind, int(number), session.log))
        runtime = WorkerRuntime(
            worker=worker,
            model=Strict(
                make("script.yaml", ModelEnv(folders=(folder,), notify=lambda level, message: None))
            ),
            workspace=folder,
            resume=session.resumed,
            wiring=Wiring(sinks=tuple(sinks), session_id=session.id),
        )
        async with runtime:
            begun = session.resumed is not None and session.resumed.past.messages
            result = await runtime.run("" if begun else "go")
        return result.wire()


if __name__ == "__main__":
    _, folder, point, *rest = sys.argv
    os.environ["POINT"] = point
    sys.stdout.write(json.dumps(in_loop(main, Path(folder), point, rest[0] if rest else None)))
