"""A session that an editor has open, on the same engine as a terminal."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress

import anyio
from acp import schema
from anyio.abc import TaskGroup, TaskStatus

from forge_cli.apps.acp.asking import EditorQuestions
from forge_cli.apps.acp.channel import EditorClient
from forge_cli.apps.acp.convert import COMMANDS, Update, UpdateWriter, commands_of, options_of
from forge_cli.apps.acp.given import Servers, with_servers
from forge_cli.cli.notices import innermost, warn
from forge_cli.core import events
from forge_cli.core.actions import CommandEvent, UserInput
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import Attachment, StopReason
from forge_cli.core.text import did_you_mean, visible
from forge_cli.core.wire import JsonObject, error_text
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import Said, Wiring
from forge_cli.files.worker import load_worker
from forge_cli.inspection.model_names import model_names
from forge_cli.record.changes import remove_unused
from forge_cli.record.line import Line
from forge_cli.record.open import OpenSession
from forge_cli.record.places import SessionLost
from forge_cli.ui.commands.talk import check_for_people
from forge_cli.ui.facts import Facts
from forge_cli.ui.terminal.slash import is_command, parse_command, read_typed_args

CANCELLED = "cancelled in the editor"


class EditorSession:
    """One session, open until the editor closes it or leaves."""

    def __init__(
        self, asked: RunOptions, client: EditorClient, tasks: TaskGroup, servers: Servers = ()
    ) -> None:
        self.asked = asked
        self._client = client
        self._servers = servers
        self.id = ""
        self.bus = EventBus()
        self._signal = InterruptSignal()
        self.facts = Facts(
            models=lambda: model_names(asked.workspace),
            tools=lambda: self.runtime.tools if self.runtime else (),
        )
        self.ended = anyio.Event()
        self.session: OpenSession | None = None
        self.runtime: WorkerRuntime | None = None
        self.updates: UpdateWriter
        self._scope = anyio.CancelScope()
        self._held: list[Update] | None = []
        """Updates that wait until the editor knows the session."""
        self._at_hand: tuple[Said, asyncio.Future[WorkerResult | None]] | None = None
        self._cancelled = False
        self._obeying = False
        self._working = anyio.Lock()
        self._failure: str | None = None
        self._last_stop: StopReason = "end"
        self._questions = EditorQuestions(client, self.bus, tasks, self.cancel)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    # --- start and end

    async def run(self, *, task_status: TaskStatus[None]) -> None:
        """Open the worker and run the conversation; raise to the caller if opening fails."""
        started = False
        try:
            worker = with_servers(load_worker(self.asked.worker), self._servers)
            host = self.asked.host(worker)
            with self._scope, self.asked.open_session(worker, warn) as session:
                self.session = session
                self.id = session.id
                self._questions.session = self.id
                self.updates = UpdateWriter(self.facts, self.facts.tools, host.renderer)
                self.bus.subscribe(self._hear, answers=True)
                wiring = Wiring(host=host, sinks=(self._take,))
                self.runtime = self.asked.runtime(
                    worker, session, wiring, bus=self.bus, interrupt_signal=self._signal
                )
                async with self.runtime as runtime:
                    started = True
                    task_status.started()
                    await runtime.converse(on_begin=self._begin, on_done=self._done)
            if not started:
                raise UsageError("the server is shutting down")
        except Exception as error:
            # the outermost frame of a session: an error must not end the other sessions
            cause = innermost(error)
            if not started:
                raise cause from None
            if isinstance(cause, ForgeError):
                self._failure = str(cause)
            else:
                self._failure = error_text(cause)
            sys.stderr.write(f"forge: {visible(self._failure)}\n")
        finally:
            # an open prompt is answered as cancelled
            self._cancelled = self._cancelled or self._at_hand is not None
            self._settle(None)
            self.ended.set()
            if self.session and self.session.log and not self.session.resumed:
                remove_unused(self.session.log.path)

    def end_now(self, end: ForcedEnd) -> None:
        """End the session from another thread, because third-party code blocks the process."""
        if self.runtime:
            self.runtime.ending.force(end)
        if self.session:
            self.session.close_log()

    def stop(self, reason: str) -> None:
        """End the session as ``forge run`` ends one."""
        if self.runtime is None or not self.runtime.has_started:
            self._scope.cancel()
            return
        with suppress(SessionLost):
            if self._at_hand:
                self.cancel(reason)
            self.bus.emit(CommandEvent("exit"))

    # --- output to the editor

    def show(self) -> None:
        """Send the held updates, as the editor knows the session now."""
        held = self._held or []
        self._held = None
        for update in (commands_of(self.facts), *held):
            self._client.tell(self.id, update)

    def replay(self) -> None:
        """Send everything that was said and done before."""
        lines = self.session.lines if self.session else ()
        for line in lines:
            for update in self.updates.updates_of(line, replayed=True):
                self._client.tell(self.id, update)

    def _tell(self, update: Update) -> None:
        if self._held is not None:
            self._held.append(update)
        else:
            self._client.tell(self.id, update)

    def _take(self, line: Line) -> None:
        """Handle a line of the record; lines from other threads are passed to the event loop."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._take, line)
            return
        # the type first, because reading the event decodes the line
        if line.type == events.ApprovalRequired.type and isinstance(
            line.event, events.ApprovalRequired
        ):
            request = line.event.request
            call = self.updates.question(line, request)
            self._questions.shown[request.request_id] = (call, request)
        for update in self.updates.updates_of(line):
            self._tell(update)

    def say(self, text: str) -> None:
        """Send a message of forge itself."""
        self._tell(
            schema.AgentMessageChunk(
                session_update="agent_message_chunk",
                content=schema.TextContentBlock(type="text", text=f"{text}\n\n"),
            )
        )

    # --- events of the session

    def _hear(self, event: events.Event) -> None:
        self.facts.note(event)
        self._questions.hear(event)
        match event:
            case _ if event.origin is not None:
                pass
            case events.TurnEndEvent(stop=stop):
                self._last_stop = stop
            case events.ManualToolsAvailable() if self._held is None:
                self._tell(commands_of(self.facts))
            case events.ModeChanged(mode=mode):
                self._tell(
                    schema.CurrentModeUpdate(
                        session_update="current_mode_update", current_mode_id=mode
                    )
                )
                self._tell_options()
            case events.SessionUpdate() if event.model or event.approval_mode:
                self._tell_options()
            case events.StatusEvent(level=level, message=text, tool_call_id=None):
                if self._obeying:
                    self.say(text)
                elif level in ("warning", "error"):
                    sys.stderr.write(f"{level}: {visible(text)}\n")
            case _:
                pass

    def _tell_options(self) -> None:
        self._tell(
            schema.ConfigOptionUpdate(
                session_update="config_option_update", config_options=options_of(self.facts)
            )
        )

    def _begin(self) -> None:
        if self._cancelled and self.runtime:
            self.runtime.interrupt(CANCELLED)

    def _done(self, said: Said, result: WorkerResult | None) -> None:
        if self._at_hand and said is self._at_hand[0]:
            self._settle(result)

    def _settle(self, result: WorkerResult | None) -> None:
        if self._at_hand and not self._at_hand[1].done():
            self._at_hand[1].set_result(result)

    # --- input from the user

    async def prompt(self, text: str, attachments: tuple[Attachment, ...]) -> WorkerResult | None:
        """Run a prompt or a command; return None if the model was not involved."""
        if self._at_hand is not None and not self._cancelled:
            raise UsageError(
                "this session is already running a prompt", hint="cancel it, or wait until it ends"
            )
        if not text.strip() and not attachments:
            raise UsageError("the prompt is empty")
        async with self._working:  # a cancelled prompt may not have ended yet
            self._last_stop = "end"
            self._cancelled = False
            typed = text.strip()
            if is_command(typed) and not attachments:
                return await self._obey(typed)
            return await self._do(UserInput(new_id("message"), text, attachments))

    async def _do(self, said: Said) -> WorkerResult | None:
        """Pass an input to the conversation and wait until it is done."""
        done: asyncio.Future[WorkerResult | None] = self._loop.create_future()
        self._at_hand = (said, done)
        self._cancelled = False
        try:
            if self.ended.is_set():
                raise UsageError("this session has ended", hint="load it to resume it")
            self.bus.emit(said)
            result = await done
            if self._failure is not None:
                raise ForgeError(self._failure, hint="load the session to resume it")
            return result
        finally:
            self._at_hand = None

    async def _obey(self, typed: str) -> WorkerResult | None:
        self._obeying = True
        try:
            parsed = parse_command(typed)
            known = [*COMMANDS, *self.facts.prompts]
            if parsed.name in known:
                return await self._do(CommandEvent(parsed.name, parsed.argv))
            if self.runtime and (tool := self.facts.manual_tools.get(parsed.name)):
                args, _ = read_typed_args(tool.name, tool.input_schema, parsed.argv)
                await self._invoke(self.runtime, tool.name, args)
                return None
            check_for_people(parsed.name, self.facts)
            hint = did_you_mean(
                f"/{parsed.name}", [f"/{name}" for name in (*known, *self.facts.manual_tools)]
            )
            raise UsageError(f"there is no command '/{visible(parsed.name)}'", hint=hint)
        except UsageError as error:
            self.say(str(error))
            return None
        finally:
            self._obeying = False

    async def _invoke(self, runtime: WorkerRuntime, tool: str, args: JsonObject) -> None:
        # so that ``cancel`` interrupts the call; nothing waits for this future
        self._at_hand = CommandEvent(tool), self._loop.create_future()
        self._signal.reset()
        try:
            await runtime.invoke(tool, args)
        finally:
            self._at_hand = None

    def cancel(self, reason: str = CANCELLED) -> None:
        """Stop the current turn, or one that has not started yet."""
        if self._at_hand and self.runtime:
            self._cancelled = True
            self.runtime.interrupt(reason)

    def stop_reason(self, result: WorkerResult | None) -> schema.StopReason:
        """Return how a prompt ended, in terms of the protocol."""
        if self._cancelled or (result and result.status == "interrupted"):
            return "cancelled"
        if self._last_stop == "refusal":
            return "refusal"
        if result and result.status == "limit":
            if self._last_stop == "max_tokens":
                return "max_tokens"
            return "max_turn_requests"
        return "end_turn"

    # --- options

    def set_mode(self, mode: str) -> None:
        if mode not in self.facts.modes:
            raise UsageError(f"this session cannot have the mode '{visible(mode)}'")
        self.bus.emit(CommandEvent("mode", (mode,)))

    async def set_model(self, name: str) -> None:
        """Change the model now, or after the current turn."""
        if name not in self.facts.models() and name != self.facts.model:
            raise UsageError(f"there is no model '{visible(name)}' to choose")
        change = CommandEvent("model", (name,))
        if self._at_hand:
            self.bus.emit(change)
            return
        problems: list[str] = []

        def note(event: events.Event) -> None:
            if isinstance(event, events.StatusEvent) and event.level == "error":
                problems.append(event.message)

        unsubscribe = self.bus.subscribe(note, only=(events.StatusEvent,))
        try:
            await self._do(change)
        finally:
            unsubscribe()
        if problems:
            raise UsageError(problems[0])
