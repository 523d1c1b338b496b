"""One child process: started in its own session, read within bounds, stopped as a tree."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from forge_cli.core.processes import Finished
from forge_cli.sandbox.processes.command import Companion, Wrap
from forge_cli.sandbox.processes.limits import ControlGroup, ProcessLimits, new_group
from forge_cli.sandbox.processes.streams import Input, Output, share_room
from forge_cli.sandbox.processes.tree import (
    MARKER,
    Guardian,
    ProcessTree,
    adopt_orphans,
    mark_children,
    new_mark,
)
from forge_cli.sandbox.processes.view import session_view

GRACE = 0.3
"""Seconds to wait for output that background processes hold open after the command has ended."""

PERIOD = 0.05
"""Seconds between two checks of what a command uses."""

WATCHED = 0.25
"""Seconds between two checks of what a command has printed."""
WATCHED_BYTES = 1000
"""Bytes of each output that are shown."""

LAST_SIGNAL = 32
"""The last signal that ends a process by accident; higher exit codes are a program's own."""


@dataclass(kw_only=True, eq=False)
class Child:
    """One command at work.

    It has ``exited`` by itself, and ``ended`` when its output has been read as well.
    """

    process: subprocess.Popen[bytes]
    tree: ProcessTree
    stdin: Input | None
    outputs: Mapping[int, Output]
    opened: ExitStack
    since: float
    wrap: Wrap
    group: ControlGroup | None
    companions: Sequence[Companion]
    exited: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    on_end: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks for the end."""
    timed_out: bool = False
    exceeded: str | None = None
    appeared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # With a single output, standard error is empty.
        self.stdout, self.stderr = (*self.outputs.values(), Output.nothing())[:2]
        self._attention = anyio.CancelScope(shield=True)
        self._time = anyio.CancelScope()
        self._stops = 0
        self._stopped = math.inf, 0.0
        self._until = self.since

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return not self.ended.is_set()

    async def attend(self) -> None:
        """Read the output until the command has ended, without waiting for background processes."""
        try:
            with self._attention:
                async with anyio.create_task_group() as readers:
                    for descriptor, output in self.outputs.items():
                        readers.start_soon(output.read, descriptor)
                    await self._exit()
                    self._until = time.monotonic()
                    if not self.exceeded and self.group:
                        self.exceeded = self.group.exceeded()
                    if self.wrap.confined and not self.tree.contained and self.tree.remains():
                        # Without a namespace, nothing else ends what it has started.
                        await self.tree.end(politely=False)
                    self.exited.set()
                    readers.cancel_scope.deadline = anyio.current_time() + GRACE
        finally:
            for descriptor, output in self.outputs.items():
                output.drain(descriptor)
                output.close()
            self.opened.close()
            self.appeared = tuple(self.wrap.appeared())
            self.exited.set()
            self.ended.set()
            for call in self.on_end:
                call()

    async def expire(self, seconds: float) -> None:
        """Stop the command unless it exits in time."""
        self._time.deadline = anyio.current_time() + seconds
        with self._time:
            await self.exited.wait()
        if not self.exited.is_set():
            self.timed_out = True
            await self.stop()

    @contextmanager
    def stop_clock(self) -> Iterator[None]:
        """Pause the time limit until the last of several nested users has left."""
        if not self._stops:
            self._stopped = self._time.deadline, anyio.current_time()
            self._time.deadline = math.inf
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                deadline, since = self._stopped
                self._time.deadline = deadline + anyio.current_time() - since

    async def accompany(self) -> None:
        """Let the companions serve the command until it has ended."""
        if self.companions:
            async with anyio.create_task_group() as serving:
                for companion in self.companions:
                    serving.start_soon(companion.serve, self.stop_clock)
                await self.ended.wait()
                serving.cancel_scope.cancel()

    async def keep_within(self, limits: ProcessLimits) -> None:
        """Check repeatedly what the command uses, and stop it if that is too much."""
        pause = PERIOD
        while not self.exited.is_set():
            with anyio.move_on_after(pause):
                await self.exited.wait()
                return
            since = time.monotonic()
            if self.group:
                self.exceeded = self.group.exceeded()
            else:
                self.exceeded = limits.exceeded(self.tree.pids())
            if self.exceeded:
                await self.stop(politely=False)
            # A look takes at most a tenth of the time, however many processes there are.
            pause = max(PERIOD, 10 * (time.monotonic() - since))

    async def keep_in_room(self) -> None:
        """Check repeatedly what the command writes to shared folders, and stop an excess."""
        pause = WATCHED
        while not self.exited.is_set():
            with anyio.move_on_after(pause):
                await self.exited.wait()
                return
            since = time.monotonic()
            exceeded = await to_thread.run_sync(self.wrap.exceeded)
            if view := session_view():
                exceeded = exceeded or await to_thread.run_sync(view.exceeded)
            if exceeded:
                self.exceeded = exceeded
                await self.stop(politely=False)
                await to_thread.run_sync(self.wrap.end_excess)
            pause = max(WATCHED, 10 * (time.monotonic() - since))

    async def watch(self, show: Callable[[str], None]) -> None:
        """Show the end of the untaken output repeatedly while the command runs."""
        shown = ""
        while not self.exited.is_set():
            with anyio.move_on_after(WATCHED):
                await self.exited.wait()
                return
            parts = (output.last(WATCHED_BYTES) for output in self.outputs.values())
            last = "\n".join(part.strip("\n") for part in parts if part)
            if last != shown:
                shown = last
                show(last)

    async def wait_for_output(self) -> None:
        """Wait until there is output to take, or the output has ended."""
        async with anyio.create_task_group() as waiting:
            for output in self.outputs.values():
                waiting.start_soon(_first, output, waiting.cancel_scope)

    async def _exit(self) -> None:
        """Wait for the process, by polling if the kernel cannot notify."""
        try:
            watch = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            pass
        else:
            self.opened.callback(os.close, watch)
            await anyio.wait_readable(watch)
        pause = 0.001
        while self.process.poll() is None:
            await anyio.sleep(pause)
            pause = min(2 * pause, 0.02)

    async def stop(self, *, politely: bool = True) -> None:
        """End the command with everything it started, within three seconds, even if cancelled."""
        with anyio.CancelScope(shield=True):
            await self.tree.end(politely=politely)
            # ``attend`` itself waits one period for the rest of the output.
            with anyio.move_on_after(2 * GRACE):
                await self.ended.wait()
            self._attention.cancel()
            await self.ended.wait()
            self.process.poll()  # a cancelled task may not have collected its exit status

    def finished(self, together: int | None = None) -> Finished:
        """Return how it ended, with at most ``together`` bytes of untaken output."""
        if together is not None:
            share_room(together, self.stdout, self.stderr)
        code = self.process.returncode
        # A shell inside a namespace reports a signal as an exit code above 128.
        if self.tree.contained and code is not None and 0 < code - 128 < LAST_SIGNAL:
            code = 128 - code
        return Finished(
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stdout=self.stdout.take(),
            stderr=self.stderr.take(),
            timed_out=self.timed_out,
            truncated=self.stdout.dropped + self.stderr.dropped > 0,
            duration_ms=round((self._until - self.since) * 1000),
            confined=self.wrap.confined,
            denies=self.wrap.confined and not self.tree.contained,
            exceeded=self.exceeded,
            appeared=self.appeared,
            refused=tuple(chain.from_iterable(companion.refused for companion in self.companions)),
        )


async def _first(output: Output, others: anyio.CancelScope) -> None:
    await output.wait_for_output()
    others.cancel()


def _start(argv: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, start_new_session=True, **options)


def start_child(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    wrap: Wrap,
    outputs: Sequence[Output],
    limits: ProcessLimits,
    guardian: Guardian,
    companions: Sequence[Companion],
    *,
    takes_input: bool,
) -> Child:
    """Start a process whose pipes close with it, even if a grandchild holds their ends."""
    adopt_orphans()
    mark = new_mark()
    with ExitStack() as ours, ExitStack() as theirs:
        command = theirs.enter_context(wrap(argv, cwd))
        companions = (*command.companions, *companions)
        for companion in companions:
            ours.callback(companion.close)
        if not command.contained:
            guardian.watch(mark)
        pipes = [_pipe(ours, theirs) for _ in outputs]
        source = subprocess.DEVNULL
        stdin: Input | None = None
        if takes_input:
            source, stdin = _input(ours, theirs)
        since = time.monotonic()
        # The child inherits limit and mark, so that it has both before it runs anything.
        with limits.of_files(), mark_children(mark):
            begin = partial(
                _start,
                limits.lasting(command.argv) if wrap.confined else command.argv,
                stdin=source,
                stdout=pipes[0][1],
                stderr=pipes[-1][1],
                cwd=cwd,
                env={**env, MARKER: str(mark)},
                pass_fds=command.descriptors,
            )
            process = begin() if command.start is None else command.start(begin)
        limits.hold(process.pid)
        group = _grouped(process.pid, limits, contained=command.contained)
        if group is not None:
            ours.callback(group.remove)
        if command.folder is not None:
            ours.callback(shutil.rmtree, command.folder, ignore_errors=True)
        return Child(
            process=process,
            tree=ProcessTree(process.pid, mark, contained=command.contained),
            stdin=stdin,
            outputs={reading: output for (reading, _), output in zip(pipes, outputs, strict=True)},
            opened=ours.pop_all(),
            since=since,
            wrap=wrap,
            group=group,
            companions=companions,
        )


def _grouped(pid: int, limits: ProcessLimits, *, contained: bool) -> ControlGroup | None:
    """Return a group with the process in it; None if it has already ended or has no limits."""
    group = new_group(limits, contained=contained)
    if group is not None:
        try:
            group.add(pid)
        except OSError:
            group.remove()
            return None
    return group


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """Return our reading end, and the writing end for the child."""
    reading, writing = os.pipe()
    ours.callback(os.close, reading)
    theirs.callback(os.close, writing)
    return reading, writing


def _input(ours: ExitStack, theirs: ExitStack) -> tuple[int, Input]:
    """Return the child's reading end and our writing end, which can be closed on its own."""
    reading, writing = os.pipe()
    theirs.callback(os.close, reading)
    stdin = Input(writing)
    ours.callback(stdin.close)
    return reading, stdin
