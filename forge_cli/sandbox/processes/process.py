"""The child processes of a session: a limited number at a time, all ended with the session."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Required, Self, TypedDict, Unpack

import anyio
from msgspec.structs import replace

from forge_cli.core.errors import ToolError
from forge_cli.core.processes import Finished, OutputName, Piece
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes.child import Child, start_child
from forge_cli.sandbox.processes.command import UNCONFINED, Companion, Wrap
from forge_cli.sandbox.processes.limits import NO_LIMITS, ProcessLimits, remove_empty_groups
from forge_cli.sandbox.processes.streams import LIMIT, Output
from forge_cli.sandbox.processes.tree import Guardian, ProcessTree

_MAX_PIECE = 65536
"""Bytes of output in one piece."""


class StartOptions(TypedDict, total=False):
    """Options of ``ChildProcesses.start`` besides the argv."""

    cwd: Required[Path]
    env: Required[Mapping[str, str]]
    wrap: Wrap
    limit: int
    errors: str
    timeout: float | None
    feed: bytes | None
    limits: ProcessLimits
    companions: Sequence[Companion]


class ChildProcesses:
    """Commands with a common end: leaving the context stops them all."""

    def __init__(self, *, at_most: int = 32, tasks: asyncio.TaskGroup | None = None) -> None:
        """Limit the running commands; ``tasks`` is left by its owner after ``aclose``."""
        self._at_most = at_most
        self._children: set[Child] = set()
        self._background: list[ProcessTree] = []
        self._guardian = Guardian()
        self._tasks = tasks or asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()
        if isinstance(error, asyncio.CancelledError):
            await self._tasks.__aexit__(kind, error, trace)
        else:
            # Without this, an error of the body would be raised inside an exception group.
            await self._tasks.__aexit__(None, None, None)

    async def aclose(self) -> None:
        """Stop all commands; no more can be started."""
        # A task that is being cancelled may still try to start a command.
        self._at_most = 0
        if self._children or self._background:
            await self._stop_all()
        self._guardian.close()
        remove_empty_groups()

    async def _stop_all(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as stopping:
                for child in self._children:
                    stopping.start_soon(child.stop)
                for tree in self._background:
                    stopping.start_soon(tree.end)

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        wrap: Wrap = UNCONFINED,
        limit: int = LIMIT,
        errors: str = "replace",
        encoding: str = "utf-8",
        timeout: float | None = None,
        takes_input: bool = False,
        feed: bytes | None = None,
        merge: bool = False,
        limits: ProcessLimits = NO_LIMITS,
        companions: Sequence[Companion] = (),
    ) -> Child:
        """Start a command, which is stopped after ``timeout``.

        ``feed`` is its whole input; with ``takes_input``, the caller writes the input. ``merge``
        combines standard error with standard output.
        """
        if len(self._children) >= self._at_most:
            raise ToolError(
                f"{len(self._children)} commands are running, which is the limit; end one first"
            )
        outputs = [Output(limit, errors, encoding) for _ in range(1 if merge else 2)]
        try:
            takes_input = takes_input or feed is not None
            child = start_child(
                argv,
                cwd,
                env,
                wrap,
                outputs,
                limits,
                self._guardian,
                companions,
                takes_input=takes_input,
            )
        except (OSError, ValueError) as error:
            nameless = isinstance(error, OSError) and error.errno == errno.ENOEXEC
            remedy = ""
            if nameless:
                remedy = "; its first line has to name an interpreter, as #!/bin/sh does"
            raise ToolError(f"{shown(argv[0])} cannot be started: {error}{remedy}") from None
        self._children.add(child)
        self._tasks.create_task(self._attend(child))
        self._tasks.create_task(child.accompany())
        if feed is not None and child.stdin is not None:
            self._tasks.create_task(child.stdin.feed(feed))
        if timeout is not None:
            self._tasks.create_task(child.expire(timeout))
        if limits.processes is not None or limits.memory is not None:
            self._tasks.create_task(child.keep_within(limits))
        if wrap.confined:
            self._tasks.create_task(child.keep_in_room())
        return child

    async def run(
        self,
        argv: Sequence[str],
        *,
        together: int | None = None,
        watch: Callable[[str], None] | None = None,
        interrupted: Callable[[Finished], Exception] | None = None,
        **options: Unpack[StartOptions],
    ) -> Finished:
        """Start a command and wait for its end, a timeout or an interrupt.

        At most ``together`` bytes of both streams are kept. Background processes of an unconfined
        command run until this context is left. ``watch`` gets the end of the output while the
        command runs. ``interrupted`` makes the exception for a cancelled caller from the result so
        far.
        """
        child = self.start(argv, **options)
        if watch is not None:
            self._tasks.create_task(child.watch(watch))
        try:
            await child.ended.wait()
        except BaseException as error:
            await child.stop()
            if interrupted is not None and isinstance(error, asyncio.CancelledError):
                raise interrupted(child.finished(together)) from None
            raise
        return child.finished(together)

    async def _attend(self, child: Child) -> None:
        await child.attend()
        self._children.discard(child)
        self._background = [tree for tree in (*self._background, child.tree) if tree.remains()]


class CommandStream:
    """A command that starts by ``async with`` or when a piece is wanted."""

    def __init__(self, start: Callable[[], Child], errors: str) -> None:
        self.finished: Finished | None = None
        self._start = start
        self._child: Child | None = None
        self._kept: dict[OutputName, Output] = {
            "stdout": Output(errors=errors),
            "stderr": Output(errors=errors),
        }

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

    async def __aexit__(self, *error: object) -> None:
        if self._child is not None and self.finished is None:
            await self._stop(self._child)

    def _started(self) -> Child:
        if self._child is None:
            self._child = self._start()
        return self._child

    def _next(self, child: Child) -> Piece | None:
        streams: tuple[tuple[OutputName, Output], ...] = (
            ("stdout", child.stdout),
            ("stderr", child.stderr),
        )
        for name, output in streams:
            if text := output.take(_MAX_PIECE):
                self._kept[name].add(text.encode(errors="surrogateescape"))
                return Piece(name, text)
        return None

    async def _stop(self, child: Child) -> None:
        await child.stop()
        while self._next(child):
            pass
        self._finish(child)

    def _finish(self, child: Child) -> None:
        """Keep the pieces as one result, the same as without streaming."""
        done = child.finished()
        out, err = self._kept.values()
        truncated = done.truncated or out.dropped + err.dropped > 0
        self.finished = replace(done, stdout=out.take(), stderr=err.take(), truncated=truncated)
