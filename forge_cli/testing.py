"""The test kit for authors of tools: temporary projects, scripted models, and collected events."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from forge_cli.core.approval import ApprovalDecision, ApprovalRequest
from forge_cli.core.bounds import start_loop
from forge_cli.core.calls import ToolOutcome
from forge_cli.core.events import Event, ToolResult
from forge_cli.core.executors import BatchItem, ExecutorFactory, ItemEnd
from forge_cli.core.results import ResultValue
from forge_cli.core.wire import JsonObject
from forge_cli.engine.batch.perform import ItemPerformer, executor_env
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.files.worker import Worker, load_worker
from forge_cli.models.script import ScriptedModel, ScriptFile
from forge_cli.record.line import Line
from forge_cli.record.recorder import Sink
from forge_cli.schema.config import parse_config
from forge_cli.schema.tool import Tool

EventT = TypeVar("EventT", bound=Event)
ResultT = TypeVar("ResultT", bound=ResultValue)
Answers = Iterable[ApprovalDecision | bool]


def call(tool: str, /, **args: Any) -> JsonObject:
    """Return a call for a scripted turn.

    For example: ``{"calls": [call("read_file", path="/notes/a.txt")]}``.
    """
    return {"tool": tool, "input": args}


def calls(*made: JsonObject, text: str = "") -> JsonObject:
    """Return a scripted turn that makes these calls."""
    return {"text": text, "calls": list(made)}


def scripted_model(*turns: JsonObject | str, name: str = "test") -> ScriptedModel:
    """Return a model that plays these turns, as in a script file; a string is a turn of text."""
    spoken = [{"text": turn} if isinstance(turn, str) else turn for turn in turns]
    return ScriptedModel(name, parse_config(ScriptFile, {"turns": spoken}, file=name))


@dataclass
class Seen:
    """The outcome of a task: its result, its events, and the lines of the record."""

    events: list[Event] = field(default_factory=list)
    lines: list[JsonObject] = field(default_factory=list)
    record: list[Line] = field(default_factory=list, repr=False, compare=False)
    """The lines that a log would contain; ``lines`` also has transient ones."""
    asked: list[ApprovalRequest] = field(default_factory=list)
    result: WorkerResult = field(init=False, repr=False, compare=False)
    """The result of the task, once it has ended."""

    def take(self, line: Line) -> None:
        """Collect a line, as a sink of the record."""
        self.lines.append(line.data)
        if not line.transient:
            self.record.append(line)

    def of(self, kind: type[EventT]) -> list[EventT]:
        """Return the events of one class, in order."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def outcomes(self) -> list[ToolResult]:
        """Return the result of each call, in order; ``value_of`` returns the value of one."""
        return self.of(ToolResult)

    @property
    def statuses(self) -> list[str]:
        """Return the status of each call, in order."""
        return [outcome.status for outcome in self.outcomes]

    @property
    def types(self) -> list[str]:
        """Return the types of the recorded events, in order."""
        return [line.type for line in self.record]


def value_of(outcome: ToolOutcome | ToolResult, kind: type[ResultT]) -> ResultT:
    """Return the value of a successful call; raise AssertionError for anything else."""
    if outcome.status != "success":
        raise AssertionError(f"the call ended as {outcome.status}: {outcome.error}")
    if not isinstance(outcome.value, kind):
        raise AssertionError(f"the call gave {outcome.value}, which is not of type {kind.__name__}")
    return outcome.value


@dataclass(frozen=True)
class WorkerCalls:
    """An open worker whose tools a test calls directly, without a model."""

    seen: Seen
    """The events, record lines and questions of the calls so far."""
    _runtime: WorkerRuntime = field(repr=False)
    _portal: BlockingPortal = field(repr=False)
    _timeout: float = 30

    @property
    def tools(self) -> dict[str, Tool]:
        """Return the tools of the worker by name."""
        return {tool.name: tool for tool in self._runtime.tools}

    def call(self, tool: str, /, **args: Any) -> ToolOutcome:
        """Call a tool through the gate, as a person on the command line, and return its outcome."""
        return self._portal.call(self._call, tool, args)

    async def _call(self, tool: str, args: JsonObject) -> ToolOutcome:
        with anyio.fail_after(self._timeout):
            return await self._runtime.invoke(tool, args, Caller.OPERATOR)


class OpenForTest(Protocol):
    """The type of the fixture ``forge_worker``, which opens a worker until the test ends."""

    def __call__(
        self, *tools: Any, answers: Answers | None = None, timeout: float = 30, **more: Any
    ) -> WorkerCalls:
        """Open a worker; ``more`` are arguments of ``Worker.of``."""
        ...


@dataclass
class Project:
    """A folder with workers, and a separate forge home beside it."""

    folder: Path

    @property
    def home(self) -> Path:
        """The folder that takes the place of ``~/.forge``."""
        return self.folder.parent / f"{self.folder.name}-home"

    def write(self, name: str, content: str) -> Path:
        """Write a file of the project; create missing folders."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path

    def read(self, name: str) -> str:
        """Return the text of a file of the project."""
        return (self.folder / name).read_text()

    def run(
        self,
        *turns: JsonObject | str,
        task: str = "go",
        worker: str = "worker.yaml",
        answers: Answers | None = None,
        timeout: float = 30,
        sinks: Iterable[Sink] = (),
        **options: Any,
    ) -> Seen:
        """Give a worker a task; the scripted model plays ``turns``.

        ``answers`` are those of a person, in order. Each of ``sinks`` gets every line of the record
        after ``lines`` has it; ``options`` are those of WorkerRuntime. Raises TimeoutError after
        ``timeout`` seconds.
        """
        given: dict[str, Any] = {"workspace": self.folder, **options}
        return start_loop(self._run, turns, task, worker, answers, timeout, tuple(sinks), given)

    async def _run(
        self,
        turns: tuple[Any, ...],
        task: str,
        worker: str,
        answers: Answers | None,
        timeout: float,
        sinks: tuple[Sink, ...],
        given: dict[str, Any],
    ) -> Seen:
        seen = Seen()
        wiring = Wiring(sinks=(seen.take, *sinks))
        if turns:
            given.setdefault("model", scripted_model(*turns))
        if answers is not None:
            given["approval_callback"] = _person(list(answers), seen)
        with self.environment(), anyio.fail_after(timeout):
            loaded = load_worker(self.folder / worker)
            async with WorkerRuntime(
                worker=loaded, on_event=seen.events.append, wiring=wiring, **given
            ) as runtime:
                seen.result = await runtime.run(task)
        return seen

    def call(self, tool: str, /, **args: Any) -> ToolOutcome:
        """Call a tool of ``worker.yaml``, approve whatever asks, and return the outcome."""
        with self.open() as worker:
            return worker.call(tool, **args)

    @contextmanager
    def open(
        self,
        worker: str | Worker = "worker.yaml",
        *,
        answers: Answers | None = None,
        timeout: float = 30,
        **options: Any,
    ) -> Iterator[WorkerCalls]:
        """Open a worker of this project for direct calls; toolsets keep their state between calls.

        ``answers`` are those of a person, in order; without them, everything that asks is approved.
        ``options`` are those of WorkerRuntime. Blocked calls stay blocked.
        """
        seen = Seen()
        given: dict[str, Any] = {"workspace": self.folder, "model": scripted_model(), **options}
        person = _person(None if answers is None else list(answers), seen)
        with self.environment(), start_blocking_portal() as portal:
            runtime = WorkerRuntime(
                worker=worker if isinstance(worker, Worker) else load_worker(self.folder / worker),
                on_event=seen.events.append,
                approval_callback=person,
                wiring=Wiring(sinks=(seen.take,)),
                **given,
            )
            with portal.wrap_async_context_manager(runtime):
                yield WorkerCalls(seen, runtime, portal, timeout)

    def forge(
        self, *argv: str, stdin: str | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line headless, in a separate process."""
        return subprocess.run(
            [sys.executable, "-m", "forge_cli", *argv],
            cwd=self.folder,
            env={**os.environ, "FORGE_HOME": str(self.home), **(env or {})},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Use the home of this project for the duration of the block."""
        before = os.environ.get("FORGE_HOME")
        os.environ["FORGE_HOME"] = str(self.home)
        try:
            yield
        finally:
            if before is None:
                del os.environ["FORGE_HOME"]
            else:
                os.environ["FORGE_HOME"] = before


EXECUTOR_WORKER = """
name: contract
instructions: You try an executor.
model: script:script.yaml
toolsets: {custom: {module: ./tools.py, tools: [wait], approval: {default: preApproved}}}
"""
EXECUTOR_TOOLS = """
import asyncio

async def wait() -> None:
    \"\"\"Wait to be interrupted.\"\"\"
    await asyncio.Event().wait()
"""


async def check_executor(
    factory: ExecutorFactory, project: Project, address: str = "", timeout: float = 60
) -> None:
    """Check that an executor fulfils its contract; raise AssertionError if it does not.

    Every item ends exactly once, with the result of its session. A caller that stops waiting for an
    end loses none. A cancelled item ends as ``interrupted``, and is resumed under the same id.
    """
    project.write("tools.py", EXECUTOR_TOOLS)
    project.write("worker.yaml", EXECUTOR_WORKER)
    project.write("script.yaml", "turns: [{text: 'Done: {task}'}]")
    project.write("waits.yaml", "turns: [{calls: [{tool: wait}]}, {text: done}]")
    work = RunOptions(worker=str(project.folder / "worker.yaml"))
    with project.environment(), anyio.fail_after(timeout):
        async with factory.make(address, executor_env(ItemPerformer(work), 4)) as executor:
            # a deadline that is over cancels the first await, unless nothing waits there
            with anyio.move_on_after(0):
                raise AssertionError(
                    "next_end does not wait, so it cannot be cancelled: "
                    f"{await executor.next_end()}"
                )
            for number in range(8):
                executor.submit(_executor_item(project, str(number)))
            ends = list[ItemEnd]()
            # a caller that is cancelled while it waits must not lose an end
            with anyio.move_on_after(0):
                ends.append(await executor.next_end())
            ends += [await executor.next_end() for _ in range(8 - len(ends))]
            answers = {end.key: (end.result["response"], end.result["sessionId"]) for end in ends}
            _expect(answers, {str(n): (f"Done: task {n}", f"contract-{n}") for n in range(8)})
            with anyio.move_on_after(0.1):
                raise AssertionError(f"an item ended twice: {await executor.next_end()}")
        waiting = ItemPerformer(replace(work, model="script:waits.yaml"))
        for status, perform in (("interrupted", waiting), ("completed", ItemPerformer(work))):
            async with factory.make(address, executor_env(perform, 4)) as executor:
                executor.submit(_executor_item(project, "w"))
                if status == "interrupted":
                    executor.cancel("interrupted")
                end = await executor.next_end()
                _expect(
                    (end.key, end.result["status"], end.result["sessionId"]),
                    ("w", status, "contract-w"),
                )
        async with factory.make(
            address, executor_env(ItemPerformer(replace(work, model="none:x")), 4)
        ) as executor:
            executor.submit(_executor_item(project, "bad"))
            end = await executor.next_end()
            _expect(
                (end.opened, end.result["status"], end.result["exitCode"]), (False, "failed", 3)
            )


def _expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{found} is not {wanted}")


def _executor_item(project: Project, key: str) -> BatchItem:
    return BatchItem(key, f"task {key}", f"contract-{key}", str(project.folder))


def _person(
    answers: list[ApprovalDecision | bool] | None, seen: Seen
) -> Callable[[ApprovalRequest], Any]:
    async def answer(request: ApprovalRequest) -> ApprovalDecision:
        seen.asked.append(request)
        decision = True if answers is None else answers.pop(0)
        if isinstance(decision, bool):
            return ApprovalDecision(decision)
        return decision

    return answer


__all__ = [
    "OpenForTest",
    "Project",
    "Seen",
    "WorkerCalls",
    "call",
    "calls",
    "check_executor",
    "scripted_model",
    "value_of",
]


if not TYPE_CHECKING:  # with it, a type checker would accept every name

    def __getattr__(name: str) -> None:
        from forge_cli.homes import missing

        raise missing(__name__, name)
