"""The output of a command piece by piece, while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from forge_cli.core.processes import Finished, OutputName, Piece
from forge_cli.sandbox.processes.process import Child
from forge_cli.sandbox.processes.streams import Output

_AT_ONCE = 65536


class CommandStream:
    """A command that starts by ``async with`` or when a piece is wanted."""

    def __init__(self, start: Callable[[], Child], errors: str) -> None:
        self.finished: Finished | None = None
        self._start = start
        self._child: Child | None = None
        self._kept: dict[OutputName, Output] = {"stdout": Output(errors=errors), "stderr": Output(errors=errors)}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        child = self._started()
        while self.finished is None:
            if piece := self._next(child):
                return piece
            if not child.running:
                self._finish(child)
                break
            try:
                await child.wait_for_output()
            except BaseException:
                await self._stop(child)
                raise
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        self._started()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._child is not None and self.finished is None:
            await self._stop(self._child)

    def _started(self) -> Child:
        if self._child is None:
            self._child = self._start()
        return self._child

    def _next(self, child: Child) -> Piece | None:
        streams: tuple[tuple[OutputName, Output], ...] = (("stdout", child.stdout), ("stderr", child.stderr))
        for name, output in streams:
            if text := output.take(_AT_ONCE):
                self._kept[name].add(text.encode(errors="surrogateescape"))
                return Piece(name, text)
        return None

    async def _stop(self, child: Child) -> None:
        await child.stop()
        while self._next(child):
            pass
        self._finish(child)

    def _finish(self, child: Child) -> None:
        """All pieces as one result: the same as that of a command that was not streamed."""
        done = child.finished()
        out, err = self._kept.values()
        truncated = done.truncated or out.dropped + err.dropped > 0
        self.finished = replace(done, stdout=out.take(), stderr=err.take(), truncated=truncated)
