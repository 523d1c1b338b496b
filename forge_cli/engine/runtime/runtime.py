"""``WorkerRuntime``, which runs a worker for programs and for the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Generic, Self, Unpack, overload

from msgspec.structs import replace

from forge_cli.core.actions import Interrupt, ManualToolInvoke
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.calls import ToolCall, ToolOutcome
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import Event, SessionEnd
from forge_cli.core.interrupt import Ended, Interrupted, InterruptSignal
from forge_cli.core.phrases import RESUME_INTERRUPTED
from forge_cli.engine.gate.execution import TOOL
from forge_cli.engine.gate.steps import Caller
from forge_cli.engine.runtime.reopening import CurrentWorker
from forge_cli.engine.runtime.result import Ending, OutputT, WorkerResult, how_to_answer
from forge_cli.engine.runtime.wiring import ConversationHooks, OpenWorker, RuntimeOptions, Wiring
from forge_cli.engine.turns.limits import OUT_OF_TIME, Budget, deadline, opening_deadline, stated
from forge_cli.engine.turns.loop import Tally
from forge_cli.files.worker import Worker
from forge_cli.record.places import SessionLost

if TYPE_CHECKING:
    from forge_cli.core.bounds import ForcedEnd
    from forge_cli.core.context import Delegation
    from forge_cli.core.messages import Attachment
    from forge_cli.core.trial import DraftCheck
    from forge_cli.engine.runtime.background import CallsByHand, EventStream
    from forge_cli.engine.runtime.children import Children
    from forge_cli.engine.runtime.conversation import Conversation
    from forge_cli.record.resume import Past, Resumed
    from forge_cli.schema.tool import Tool


class TaskState:
    """The current task of a runtime: its use, and its result once it has ended."""

    def __init__(self, past: Past | None) -> None:
        self.past = past
        """The past of a resumed session; None once it was continued."""
        self.tally = Tally()
        self.budget: Budget | None = None
        self.result: WorkerResult | None = None
        self.children: list[WorkerResult] = []
        """The results of child workers."""
        self.had_calls_by_hand = False
        """True if a person has called a tool since the session was opened."""

    def begin(self, budget: Budget) -> Tally:
        """Begin another task."""
        self.tally = Tally()
        self.budget = budget
        self.result = None
        self.children.clear()
        return self.tally

    def end(self, opened: OpenWorker, ending: Ending) -> WorkerResult:
        """Keep the result of the task, and return it."""
        self.result = self.result_of(opened, ending)
        return self.result

    def result_of(self, opened: OpenWorker, ending: Ending) -> WorkerResult:
        """Return the result that the task would have if it ended now."""
        name = opened.worker.name
        done = WorkerResult.of(
            ending, session_id=opened.wiring.session_id, worker=name, model=opened.loop.model.name
        )
        return done.with_work(self.tally, self.budget or opened.new_budget(), self.children)


class SessionEnding:
    """The end of a session, announced in order or forced; only the root records it."""

    def __init__(self, current: CurrentWorker, task: TaskState) -> None:
        self._current = current
        self._task = task
        self.is_over = False
        self._checked: DraftCheck | None = None

    async def announce(self) -> None:
        """Notify hooks, then emit the end; only the first time, and before anything is closed."""
        if self.is_over:
            return
        opened = None
        hooks = None
        if self._current.wiring.is_root:
            opened = self._current.now
        if opened and self._task.result:
            hooks = opened.loop.guard.judge.hooks
        try:
            if opened:
                await self._check(opened)
            if hooks:
                await hooks.session_ends()
        finally:
            if opened:
                self._emit(opened)
            if self._current.wiring.is_root:
                self._current.stop_announcing()
            self.is_over = True

    async def _check(self, opened: OpenWorker) -> None:
        """Run the check of a draft after completed work, whose result it decides."""
        draft = opened.wiring.draft
        result = self._task.result
        if draft is None or not draft.check or result is None or result.status != "completed":
            return
        from forge_cli.engine.runtime.draft_check import check_draft, with_check

        self._checked = await check_draft(opened, draft.check)
        reason = opened.wiring.interrupt_signal.reason
        self._task.result = with_check(result, self._checked, reason)

    def _emit(self, opened: OpenWorker) -> None:
        task = self._task
        is_unfinished = task.past is not None and task.past.unfinished
        if task.result is None and task.had_calls_by_hand and not is_unfinished:
            task.end(opened, Ending(""))  # there were only calls that a person made
        if task.result is None:
            return
        ends: tuple[Event, ...] = ()
        if task.result.status != "parked":
            ends = tuple(opened.open_calls.ends())
        if draft := opened.wiring.draft:
            ended = draft.ended(task.result.status, self._checked)
            task.result = replace(task.result, draft=ended.payload())
            ends = (*ends, ended)
        with suppress(SessionLost):  # the result reports it
            for event in (*ends, SessionEnd(task.result.wire())):
                self._current.bus.emit(event)

    def force(self, end: ForcedEnd) -> WorkerResult:
        """End the session from another thread, because third-party code holds the event loop."""
        task = self._task
        if task.result:
            return task.result
        opened = self._current.now
        ending = Ending.forced(end, task.budget, opened.loop.last_text if opened else "")
        if opened is None:
            # a new session has no line yet that its ID could lead to
            session = self._current.wiring.session_id if task.past else ""
            return WorkerResult.of(ending, session_id=session, worker=self._current.worker.name)
        done = task.result_of(opened, ending)
        task.result = replace(done, tool_calls=done.tool_calls + opened.open_calls.count)
        late = None
        if end.late and not end.why:
            late = end.late.removeprefix(TOOL)
        opened.open_calls.close(SessionEnd(task.result.wire()), late)
        return task.result


class WorkerRuntime(Generic[OutputT]):
    """A runtime of one worker.

    Use it as ``async with WorkerRuntime(worker=load_worker(path)) as runtime``, and await
    ``runtime.run(task)``. ``initialize`` and ``aclose`` have to run in the same asyncio task.
    Without ``approval_callback``, calls that ask go to the person on ``bus``; if there is no
    person, they are denied at once.
    """

    @overload
    def __init__(
        self: WorkerRuntime[Any],
        *,
        worker: Worker,
        resume: Resumed | None = None,
        wiring: Wiring | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None: ...

    @overload
    def __init__(
        self,
        *,
        worker: Worker,
        output_type: type[OutputT],
        resume: Resumed | None = None,
        wiring: Wiring | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None: ...

    def __init__(
        self,
        *,
        worker: Worker,
        output_type: type[OutputT] | None = None,
        resume: Resumed | None = None,
        wiring: Wiring | None = None,
        **options: Unpack[RuntimeOptions],
    ) -> None:
        """Take the options of ``RuntimeOptions``: model, approval_mode, limits, ...

        ``session`` comes from ``open_session``, with the session that it resumes. ``wiring`` is
        internal and may change without notice.

        The final answer has to match ``output_type``, and ``output`` of the result has that type.

        With ``read_only``, only tools that are declared read-only can be called, also by child
        workers. A session that was read-only stays so when it is resumed.
        """
        if not isinstance(worker, Worker):
            problem = f"worker must come from load_worker(PATH) or Worker.of(...), not {worker!r}"
            raise TypeError(problem)
        wiring = (wiring or Wiring()).completed(worker, resume, options, output_type)
        self._stack = AsyncExitStack()
        self._current = CurrentWorker(worker, wiring, self._stack, self._delegate)
        self._task = TaskState(wiring.past)
        self.ending = SessionEnding(self._current, self._task)
        """The end of the session; internal, because ``aclose`` ends it for programs."""
        self._children: Children | None = None
        self._started = False
        self._conversation: Conversation | None = None
        self._stream: EventStream | None = None
        self._working = False
        self._by_hand: CallsByHand | None = None

    @property
    def worker(self) -> Worker:
        """The worker that this runtime runs."""
        return self._current.worker

    @property
    def bus(self) -> EventBus:
        """The bus of its events and of answers."""
        return self._current.wiring.bus

    @property
    def interrupt_signal(self) -> InterruptSignal:
        """The signal that interrupts this runtime."""
        return self._current.wiring.interrupt_signal

    @property
    def session_id(self) -> str:
        """The ID of the session, which child workers share."""
        return self._current.wiring.session_id

    @property
    def depth(self) -> int:
        """The depth in the tree of workers: 0 for the root."""
        return self._current.wiring.depth

    @property
    def is_root(self) -> bool:
        """True if the worker has no parent."""
        return self._current.wiring.is_root

    @property
    def has_started(self) -> bool:
        """True once everything is open, so that an interrupt has something to stop."""
        return self._started

    @property
    def result(self) -> WorkerResult[OutputT] | None:
        """The result of the last task, or None."""
        if self._task.result is None:
            return None
        return self._typed(self._task.result)

    @property
    def tools(self) -> list[Tool]:
        """The tools that the worker can call right now."""
        return self._current.tools

    @property
    def next_session(self) -> str | None:
        """The session that continues after a command of the conversation, or None."""
        if self._conversation:
            return self._conversation.commands.next_session
        return None

    @property
    def wants_draft(self) -> bool:
        """True if that session continues in a new draft."""
        return self._conversation is not None and self._conversation.commands.wants_draft

    async def __aenter__(self) -> Self:
        await self.initialize()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def initialize(self) -> None:
        """Open everything that the worker names; raise its errors before anything runs."""
        wiring = self._current.wiring
        # The public function raises instead, and under trio there is a loop, but not one of
        # asyncio.
        if asyncio._get_running_loop() is None:
            hint = "elsewhere, use a thread: await trio.to_thread.run_sync(run_sync, worker, task)"
            raise UsageError("a WorkerRuntime requires asyncio", hint=hint)
        try:
            # The time of a child or of a batch is limited elsewhere.
            shared = wiring.parent or wiring.pool
            limits = stated(wiring.limits, self.worker.config.limits)
            async with nullcontext() if shared else opening_deadline(limits):
                await self._current.open()
            self._started = True
            if self.is_root:
                self._stack.callback(
                    self.bus.subscribe(self._call_by_hand, only=(ManualToolInvoke,))
                )
                await self._current.announce()
                if draft := wiring.draft:
                    for event in draft.opened(self.session_id):
                        self.bus.emit(event)
                if hooks := self.opened.loop.guard.judge.hooks:
                    await hooks.session_starts()
        except BaseException:
            with suppress(ForgeError):
                await self._stack.aclose()
            raise

    @property
    def opened(self) -> OpenWorker:
        """Everything that is open; internal and may change without notice."""
        return self._current.opened

    async def run(self, task: str, attachments: Sequence[Attachment] = ()) -> WorkerResult[OutputT]:
        """Run one task; the root keeps the conversation for the next one.

        A resumed session may get an empty task: then it continues its unfinished work. A second
        ``run`` before the first has ended raises UsageError.
        """
        if self._working:
            hint = "await it first, let converse() queue tasks, or make a WorkerRuntime for each"
            raise UsageError("the runtime is already running a task", hint=hint)
        self._working = True
        try:
            return self._typed(await self._run(task, attachments))
        finally:
            self._working = False

    def _typed(self, result: WorkerResult) -> WorkerResult[OutputT]:
        """Return a result with a value of the wanted type; the log has the JSON value."""
        schema = self._current.wiring.output_schema
        if schema is None or result.status != "completed" or result.output is None:
            return result
        return replace(result, output=schema.convert(result.output))

    async def _run(self, task: str, attachments: Sequence[Attachment]) -> WorkerResult:
        opened = self.opened
        at_hand = self._task
        task = _task(task, at_hand.past)
        # The last task ran out of time; any other interrupt is meant for this one, too.
        if self.interrupt_signal.reason == OUT_OF_TIME:
            self.interrupt_signal.reset()
        budget = opened.new_budget()
        tally = at_hand.begin(budget)
        opened.start_task(tally, budget)
        try:
            ending = Ending(await self._work(opened, task, attachments, tally, budget))
        except (Ended, ForgeError) as cause:
            ending = Ending.early(cause, opened.loop.last_text)
        except asyncio.CancelledError:
            # The end of the session is still recorded, with this result.
            at_hand.end(opened, Ending.early(Interrupted(), opened.loop.last_text))
            raise
        if ending.status == "parked" and opened.wiring.parent is None:
            ending = replace(ending, error=how_to_answer(ending.error, self.session_id))
        if task and not tally.begun and opened.wiring.parent is None:
            lost = "the new task was not begun; give it again when you resume the session"
            ending = replace(ending, error=f"{ending.error or ending.status}\n  {lost}")
        return at_hand.end(opened, ending)

    async def _work(
        self,
        opened: OpenWorker,
        task: str,
        attachments: Sequence[Attachment],
        tally: Tally,
        budget: Budget,
    ) -> str:
        """Finish the open turn of a resumed session, then do the task and return the answer."""
        past = self._task.past
        self._task.past = None
        with deadline(budget, self.interrupt_signal):
            if past:
                from forge_cli.engine.runtime.children import close_lost

                close_lost(past.lost, self.bus, opened.path)
                await opened.loop.resume(past, tally)
            if self._by_hand:
                await self._by_hand.wait_for_commands()
            return await opened.loop.work(
                task, attachments, tally, budget, past.reply if past else None
            )

    async def _delegate(self, call: ToolCall, task: Delegation) -> str:
        if self._children is None:
            from forge_cli.engine.runtime.children import Children

            self._children = Children(_run_child, self._current.wiring.past, self._task.children)
        opened = replace(self.opened, budget=self._task.budget or self.opened.new_budget())
        self._task.budget = opened.budget
        return await self._children.delegate(opened, call, task)

    def stream(self, task: str, attachments: Sequence[Attachment] = ()) -> EventStream:
        """Run one task and return its events as they come; ``result`` is set at the end."""
        from forge_cli.engine.runtime.background import EventStream

        self._stream = stream = EventStream(
            self.bus, lambda: self.run(task, attachments), self.interrupt
        )
        return stream

    async def invoke(
        self, tool: str, args: Mapping[str, Any], caller: Caller = Caller.PERSON
    ) -> ToolOutcome:
        """Call one tool by hand, through the gate; the model's history does not contain it.

        A person may call the tools that are for people. Programs use ``call``.
        """
        call = ToolCall(new_id("manual"), tool, dict(args))
        if caller is Caller.PERSON:
            self.bus.emit(ManualToolInvoke(tool, call.args, call.id))
        return await self.opened.loop.guard.call(call, caller)

    async def call(self, tool: str, args: Mapping[str, Any] | None = None) -> ToolOutcome:
        """Call any tool as the program itself, through the gate, and return the outcome.

        A call that asks still asks. A refusal is an outcome, not an exception. The model's
        history does not contain the call.
        """
        call = ToolCall(new_id("program"), tool, dict(args or {}))
        return await self.opened.loop.guard.call(call, Caller.PROGRAM)

    async def converse(
        self, *, resume: bool = False, **told: Unpack[ConversationHooks]
    ) -> WorkerResult | None:
        """Handle ``userInput``, ``command`` and ``interrupt`` events, and return the last result.

        With ``resume``, first continue the unfinished work of a resumed session. ``on_begin`` and
        ``on_end`` are called around each task, ``on_done`` gets the input and its result. The
        command ``exit`` or ``resume`` ends the conversation, and so does closing the runtime.
        """
        from forge_cli.engine.runtime.conversation import Conversation

        self._conversation = conversation = Conversation(self._current, self.run, **told)
        result = await conversation.go(resume=resume)
        if self._by_hand:
            await self._by_hand.wait()
        return result

    def _call_by_hand(self, event: Event) -> None:
        """Call the tool of an event; the calls of ``invoke``, which have an ID, are left out."""
        if isinstance(event, ManualToolInvoke) and event.tool_call_id is None:
            call = ToolCall(new_id("manual"), event.tool_name, dict(event.args))
            self._task.had_calls_by_hand = True
            if self._by_hand is None:
                from forge_cli.engine.runtime.background import CallsByHand

                self._by_hand = CallsByHand(self.bus)
            if event.own_command:
                self._by_hand.start_command(call, lambda: self.opened.loop)
            else:
                self._by_hand.start(self.opened.loop.guard.call(call, Caller.PERSON))

    def stop_conversing(self) -> None:
        """Take no more input; ``converse`` ends after the current task."""
        if self._conversation:
            self._conversation.close()

    def interrupt(self, reason: str = "interrupted") -> None:
        """Stop the turn: the running call ends, pending ones get the result ``interrupted``."""
        if not self.ending.is_over:
            with suppress(SessionLost):
                self.bus.emit(Interrupt(reason))
        self.interrupt_signal.interrupt(reason)

    async def aclose(self) -> None:
        """Close everything; the root records the end of the session first."""
        self.stop_conversing()
        if self._stream:
            await self._stream.aclose()
        if self._by_hand:
            await self._by_hand.aclose()
        await self.ending.announce()
        await self._current.aclose()


async def _run_child(
    task: str, attachments: Sequence[Attachment], started: Callable[[], None], **options: Any
) -> WorkerResult:
    async with WorkerRuntime(**options) as child:
        started()
        return await child.run(task, attachments)


def _task(task: str, past: Past | None) -> str:
    # a resumed session may get no new task, if it has unfinished work
    if task.strip():
        return task
    if past is None or not past.unfinished:
        problem = "the session has nothing left to do" if past else "the task is empty"
        raise UsageError(problem, hint='write a task: forge run WORKER "TASK"')
    return RESUME_INTERRUPTED if past.mid_sentence else task
