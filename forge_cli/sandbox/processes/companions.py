"""Companions of one command: several that serve it while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from forge_cli.sandbox.processes.command import Command, Companion, Wrap


@dataclass(frozen=True)
class Companions:
    """Several that are one."""

    each: tuple[Companion, ...]

    async def serve(self, stop_clock: Callable[[], AbstractContextManager[None]]) -> None:
        async with anyio.create_task_group() as serving:
            for companion in self.each:
                serving.start_soon(companion.serve, stop_clock)

    def close(self) -> None:
        for companion in self.each:
            companion.close()

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(wanted for companion in self.each for wanted in companion.refused)


@dataclass(frozen=True)
class AccompaniedWrap:
    """Starts an argv as another one does, with one more companion."""

    wrap: Wrap
    companion: Companion

    @property
    def confined(self) -> bool:
        return self.wrap.confined

    @contextmanager
    def __call__(self, argv: Sequence[str], cwd: Path) -> Iterator[Command]:
        with self.wrap(argv, cwd) as command:
            before = (command.companion,) if command.companion else ()
            yield replace(command, companion=Companions((*before, self.companion)))

    def appeared(self) -> Sequence[str]:
        return self.wrap.appeared()
