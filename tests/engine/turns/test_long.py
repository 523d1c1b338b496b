"""A session of many turns that is kept: a turn at its end does and keeps no more than one near its beginning."""

import sys
import tracemalloc
from collections.abc import AsyncGenerator
from pathlib import Path
from types import FrameType

import anyio
import pytest

from forge_cli import WorkerRuntime, load_worker
from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import Delta, ModelRequest, TextDelta, TurnEnd
from forge_cli.embedding import Limits, open_session
from forge_cli.testing import Project

WINDOW = 20
"""Turns that are looked at together: what grows by doubling grows in one of them."""
TURN_MAX = 20_000
"""Bytes that a turn may add, with what it costs to count them; it is sent again with each that follows."""


class Counting:
    """A model that reads and writes files; it counts the functions that are called in each turn, and the memory."""

    name = "counting"
    context_window: int | None = None

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.made: list[int] = []
        self.memory: list[int] = []
        self._calls = 0

    def note(self, frame: FrameType, event: str, arg: object) -> None:
        self._calls += 1

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        turn = len(self.made)
        self.made.append(self._calls)
        self.memory.append(tracemalloc.get_traced_memory()[0])
        if turn < self.turns:
            yield TextDelta(f"Turn {turn}.")
            yield ToolCall(f"read_{turn}", "read_file", {"path": "notes.txt"})
            yield ToolCall(
                f"write_{turn}",
                "write_file",
                {"path": f"{turn % 10}.txt", "content": f"turn {turn}"},
            )
        yield TurnEnd()

    async def aclose(self) -> None:
        pass

    def calls_around(self, turn: int) -> float:
        return (self.made[turn] - self.made[turn - WINDOW]) / WINDOW


async def converse(folder: Path, model: Counting) -> None:
    worker = load_worker(folder / "worker.yaml")
    limits = Limits(max_turns=model.turns + 1)
    with open_session(worker, workspace=folder) as session:
        runtime = WorkerRuntime(
            worker=worker,
            model=model,
            workspace=folder,
            limits=limits,
            session=session,
            approval_mode="approve_all",
        )
        async with runtime:
            sys.setprofile(model.note)
            try:
                result = await runtime.run("go")
            finally:
                sys.setprofile(None)
    assert (result.turns, result.success) == (model.turns + 1, True)


@pytest.mark.long
@pytest.mark.parametrize("turns", [100, 5_000])
def test_turn_costs_the_same_early_and_late(project: Project, turns: int) -> None:
    project.write("worker.yaml", "name: reader\ntoolsets: {filesystem: {}}\n")
    project.write("notes.txt", "A line of text.\n" * 20)
    model = Counting(turns)
    tracemalloc.start()
    try:
        anyio.run(converse, project.folder, model)
    finally:
        tracemalloc.stop()
    early, late = model.calls_around(turns // 4), model.calls_around(turns)
    assert late < early * 1.1, (
        f"{early:.0f} calls of functions in a turn, and {late:.0f} after {turns} turns"
    )
    half, added = turns // 2, model.memory[turns] - model.memory[turns // 2]
    assert added / half < TURN_MAX, f"a turn adds {added / half:.0f} bytes"
    assert added < 1.5 * (model.memory[half] - model.memory[0]), "later turns add more"
