"""A session that runs for the page, with the same engine and events as on a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn

import anyio
from anyio.abc import TaskStatus
from msgspec.structs import asdict
from rich.console import Console, RenderableType
from rich.text import Text

from forge_cli.apps.web.view import SessionView
from forge_cli.cli.notices import innermost, warn
from forge_cli.core.actions import ApprovalResponse, ManualToolInvoke, UserInput
from forge_cli.core.approval import THIS_CALL, ApprovalDecision, ApprovalRequest, OnAsk
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError, InvalidInput, UsageError
from forge_cli.core.events import (
    ApprovalDecided,
    ApprovalRequired,
    ContextUsage,
    Event,
    SessionStart,
    SessionUpdate,
)
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.messages import Attachment
from forge_cli.core.phrases import is_own
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject, error_text, jsonable
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.runtime import WorkerRuntime
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.files.settings import TraceLevel
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.model_names import model_names
from forge_cli.record.changes import remove_unused
from forge_cli.record.open import OpenSession
from forge_cli.record.pending import pending_of
from forge_cli.record.places import SessionLost
from forge_cli.ui.commands.session import words_at
from forge_cli.ui.completion import InputCompletion
from forge_cli.ui.facts import Facts
from forge_cli.ui.html.requests import chosen_offers
from forge_cli.ui.places import Places
from forge_cli.ui.queue import MessageQueue, TypedMessage
from forge_cli.ui.typed import TypedLines

_PROBLEM = re.compile(
    r"missing field '(?P<missing>[^']+)'|(?P<name>[^\s:.\[]+)[^:]*: (?P<why>.+)", re.DOTALL
)


class AnsweredBefore(ForgeError):
    """A request was already answered."""

    def __init__(self, by: str) -> None:
        super().__init__("already answered", hint="the first answer counts")
        self.by = by


class InvalidArgs(ForgeError):
    """Invalid values in the form of a tool."""

    def __init__(self, error: InvalidInput) -> None:
        super().__init__(str(error))
        self.fields: dict[str, str] = {}
        """Problems by field; the others are only in the message."""
        for problem in error.problems:
            if found := _PROBLEM.match(problem):
                name = found["missing"] or found["name"]
                self.fields.setdefault(name, found["why"] or "a value is required")


class PageQueue(MessageQueue):
    """The queue of messages from all tabs."""

    on_change: Callable[[], None] = staticmethod(lambda: None)
    last: TypedMessage | None = None
    """The message that was sent last."""

    def _on_send(self, message: TypedMessage) -> None:
        self.last = message

    def _on_change(self) -> None:
        self.on_change()


class LiveSession:
    """A session that is open until it is closed or the server ends."""

    def __init__(self, asked: RunOptions, find_view: Callable[[str], SessionView]) -> None:
        self.asked = asked
        self.id = self.worker = ""
        self.bus = EventBus()
        self._signal = InterruptSignal()
        self.queue = PageQueue(self.bus, self._signal)
        self.queue.on_change = self._on_change
        self.ended = anyio.Event()
        self.session: OpenSession | None = None
        self.runtime: WorkerRuntime | None = None
        self.view: SessionView
        self._find_view = find_view
        self._scope = anyio.CancelScope()
        self.requests: dict[str, ApprovalRequest] = {}
        """All requests so far, by id."""
        self._answered: dict[str, str] = {}
        self._attending: Callable[[], None] | None = None
        self._places: Places
        self._lines: TypedLines

    async def run(self, *, task_status: TaskStatus[str]) -> None:
        """Open the worker and run the conversation; a failure to open is raised."""
        started = False
        try:
            worker = load_worker(self.asked.worker)
            with self._scope, self.asked.open_session(worker, warn) as session:
                async with self._open(worker, session) as runtime:
                    started = True
                    self._attend()
                    self.view.set_live(True)
                    task_status.started(self.id)
                    await runtime.converse(
                        resume=_is_parked(session),
                        on_begin=self.queue.began,
                        on_end=self._on_end,
                    )
            if session.log and not session.resumed:
                remove_unused(session.log.path)
            if not started:
                raise UsageError("the server is stopping, so no session is started")
        except Exception as error:  # a failed session must not end the others
            cause = innermost(error)
            if not started:
                raise cause from None
            is_ours = isinstance(cause, ForgeError)
            if is_ours:
                self.view.drawing.ending = str(cause)
            else:
                self.view.drawing.ending = error_text(cause)
        finally:
            if started:
                self.view.on_tabs = lambda: None  # the view may outlive this session
                self.view.set_live(False)
            self.ended.set()

    def end_now(self, end: ForcedEnd) -> None:
        """End the session from another thread, because third-party code blocks the event loop."""
        if self.runtime:
            self.runtime.ending.force(end)
        if self.session:
            self.session.close_log()

    def _open(self, worker: Worker, session: OpenSession) -> WorkerRuntime:
        self.session = session
        self.worker = worker.name
        self.id = session.id
        host = self.asked.host(worker)
        self.view = view = self._find_view(self.id)
        known = view.drawing.seq
        facts = view.drawing.facts
        view.drawing.find = host.renderer
        facts.models = lambda: model_names(self.asked.workspace)
        self._places = Places(self.asked.workspace, {})
        self._lines = TypedLines(self.queue, facts, self._places)
        for line in session.lines:
            if line.seq > known:  # a tab may have shown the session before
                view.take(line)
        if session.resumed:
            for message in session.resumed.past.messages:
                if message.role == "user" and not is_own(message.text):
                    self.queue.last = TypedMessage(message.text, message.attachments)
        wiring = Wiring(host=host, sinks=(view.take,))
        runtime = self.asked.runtime(
            worker, session, wiring, bus=self.bus, interrupt_signal=self._signal
        )
        self.runtime = runtime
        facts.tools = lambda: runtime.tools
        self.bus.subscribe(self._hear)
        view.on_tabs = self._attend
        return runtime

    # --- events

    def _hear(self, event: Event) -> None:
        self.queue.note(event)
        match event:
            case SessionStart(zones=zones) | SessionUpdate(zones=zones) if (
                zones and event.origin is None
            ):
                self._places.zones = {str(zone["name"]): Path(str(zone["path"])) for zone in zones}
            case ContextUsage(rewound=int(line)) if event.origin is None:
                self.view.tell({"type": "edit", "text": words_at(self.id, line)})
            case ApprovalRequired(request=request):
                self.requests[request.request_id] = request
            case ApprovalResponse(request_id=request_id, decision=decision):
                self._answered.setdefault(request_id, decision.via or "user")
            case ApprovalDecided(request_id=str() as request_id):
                self._answered.setdefault(request_id, event.by)
                self._attend()
            case _:
                pass

    def _on_change(self) -> None:
        self.view.set_busy(self.queue.busy, [message.text for message in self.queue.queue])

    def _on_end(self, result: WorkerResult | None) -> None:
        self.queue.ended(result.status if result else "failed")
        if result and result.status == "parked":
            self.queue.leave()  # its requests are answered in the inbox, then it is resumed

    def _attend(self) -> None:
        """Answer requests only while a tab is open, if they are parked otherwise."""
        parks = self.asked.on_ask is OnAsk.PARK
        waits = not parks or bool(self.view.tabs) or any(map(self.bus.is_open, self.requests))
        if waits and self._attending is None:
            # A subscriber that answers keeps requests from being parked.
            self._attending = self.bus.subscribe(lambda event: None, answers=True)
        elif not waits and self._attending is not None:
            self._attending()
            self._attending = None

    # --- actions of people

    @contextmanager
    def _ending_with_its_log(self) -> Iterator[None]:
        """End the session if its log cannot be written."""
        try:
            yield
        except SessionLost as error:
            self.view.drawing.ending = str(error)
            if self.runtime:
                self.runtime.interrupt()
                self.runtime.stop_conversing()
            raise

    async def enter(
        self, text: str, attachments: tuple[Attachment, ...], columns: int
    ) -> JsonObject:
        """Handle a line typed in a tab; only that tab sees the output of a command."""
        if not text.strip() and not attachments:
            raise UsageError("the message is empty")
        chat = TabChat(self.view.drawing.facts, columns, self.queue.leave)
        with self._ending_with_its_log():
            await self._lines.enter(chat, text.strip(), attachments)
        self._lines.attached += chat.attached
        return chat.answer()

    def retry(self) -> None:
        """Send the last message again, with its attachments."""
        if self.queue.last is None:
            raise UsageError("this session has no message yet")
        with self._ending_with_its_log():
            self.queue.send(self.queue.last)

    def complete(self, text: str) -> list[JsonObject]:
        """Return completions of the text before the cursor."""
        tools = self.runtime.tools if self.runtime else ()
        completion = InputCompletion(self.view.drawing.facts, lambda: tools, self._places)
        return [asdict(candidate) for candidate in completion.candidates(text)]

    def answer(self, request_id: str, choice: str, feedback: str) -> None:
        """Answer a request; the first answer counts."""
        request = self.requests.get(request_id)
        if request_id in self._answered or (request and not self.bus.is_open(request_id)):
            raise AnsweredBefore(self._answered.get(request_id, "session"))
        if request is None:
            raise UsageError(f"unknown request '{visible(request_id)}'")
        decision = _decision(request, choice, feedback)
        with self._ending_with_its_log():
            self.bus.answer(request_id, decision)

    def reply(self, request_id: str, content: str | None) -> None:
        """Answer a question with a line; None declines."""
        if not self.bus.is_open(request_id):
            raise AnsweredBefore("user")
        with self._ending_with_its_log():
            self.bus.emit(UserInput(request_id, content or ""))

    def invoke(self, tool: str, args: Mapping[str, Any]) -> None:
        """Call a tool by hand if its arguments are valid."""
        known = self.view.drawing.facts.manual_tools
        found = None
        if self.runtime and tool in known:
            found = next((each for each in self.runtime.tools if each.name == tool), None)
        if found is None:
            raise UsageError(f"unknown tool '{visible(tool)}', or it is not for people")
        try:
            found.schema.validate(args)
        except InvalidInput as error:
            raise InvalidArgs(error) from None
        with self._ending_with_its_log():
            self.bus.emit(ManualToolInvoke(tool, dict(args)))

    def interrupt(self) -> JsonObject:
        """Stop the work; return queued messages for editing, and keep their files attached."""
        taken: list[str] = []
        if self.queue.busy:
            while self.queue.queue:
                taken.insert(0, self._lines.take_back() or "")
            with self._ending_with_its_log():
                self.queue.interrupt()
        shown = ""
        if taken and self._lines.attached:
            files = ", ".join(visible(file.name) for file in self._lines.attached)
            shown = f"attached to your next message: {files}"
        return {"text": "\n".join(taken), "shown": shown}

    def stop(self, reason: str | None = None) -> None:
        """End the session: at once with a ``reason``, else after the current work."""
        if self.runtime is None or not self.runtime.has_started:
            self._scope.cancel()
            return
        with suppress(SessionLost), self._ending_with_its_log():
            if reason:
                self.queue.stop(reason)
            else:
                self.queue.leave()


def _is_parked(session: OpenSession) -> bool:
    """Return True if a session has parked requests, so that it resumes without a message."""
    return session.resumed is not None and any(pending_of(session.resumed.past))


def _decision(request: ApprovalRequest, choice: str, feedback: str) -> ApprovalDecision:
    note = " ".join(feedback.split()) or None
    if choice == "once":
        return ApprovalDecision(True)
    if choice == "no":
        return ApprovalDecision(False, note=note)
    offer = chosen_offers(request).get(choice)
    if offer is None:
        raise UsageError(f"unknown choice '{visible(choice)}'")
    return ApprovalDecision(True, remember="session", grant=None if offer == THIS_CALL else offer)


class TabChat:
    """The ``Chat`` of the commands of one line, whose output goes to one tab."""

    def __init__(self, facts: Facts, columns: int, leave: Callable[[], None]) -> None:
        self.facts = facts
        self.leave = leave
        self.attached: list[Attachment] = []
        self._said = StringIO()
        self._console = Console(file=self._said, width=columns, color_system=None, highlight=False)
        self._form: JsonObject | None = None

    def show(self, shown: RenderableType) -> None:
        self._console.print(Text(shown) if isinstance(shown, str) else shown)

    def unfold(self, number: int | None) -> None:
        raise UsageError("the page shows every result whole", hint="click a call to open it")

    async def ask(self, prompt: str, instead: str) -> None:
        """Show ``instead``, because the page cannot ask for a line."""
        self.show(instead)

    async def fill(self, tool: str, given: Mapping[str, Any]) -> None:
        """Let the page show the form and call the tool."""
        self._form = {"tool": tool, "given": jsonable(given)}

    def attach(self, attachment: Attachment) -> None:
        self.attached.append(attachment)

    @property
    def trace(self) -> TraceLevel:
        _no_trace()

    def set_trace(self, level: TraceLevel) -> None:
        _no_trace()

    def answer(self) -> JsonObject:
        """Return the output of the line for its tab."""
        shown = "\n".join(line.rstrip() for line in self._said.getvalue().rstrip("\n").split("\n"))
        return {"shown": shown, "form": self._form}


def _no_trace() -> NoReturn:
    raise UsageError("the page has no trace level", hint="click a call to open it")
