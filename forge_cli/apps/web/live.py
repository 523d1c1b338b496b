"""A session that is worked on for the page: the same engine and the same events as in a terminal."""

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
    """Somebody else was faster."""

    def __init__(self, by: str) -> None:
        super().__init__("this was answered before", hint="the first answer counts")
        self.by = by


class UnfitArgs(ForgeError):
    """Values in the form of a tool that do not fit."""

    def __init__(self, error: InvalidInput) -> None:
        super().__init__(str(error))
        self.fields: dict[str, str] = {}
        """Problems by the name of the field; others are in the sentence."""
        for problem in error.problems:
            if found := _PROBLEM.match(problem):
                self.fields.setdefault(
                    found["missing"] or found["name"], found["why"] or "it needs a value"
                )


class PageQueue(MessageQueue):
    """Messages from any tab."""

    on_change: Callable[[], None] = staticmethod(lambda: None)
    last: TypedMessage | None = None
    """The one that was taken up last."""

    def _on_send(self, message: TypedMessage) -> None:
        self.last = message

    def _on_change(self) -> None:
        self.on_change()


class LiveSession:
    """One session, open until it is closed or the server ends; ``find_view`` gives what the tabs look at."""

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
        """All that was asked, by id."""
        self._answered: dict[str, str] = {}
        self._attending: Callable[[], None] | None = None
        self._places: Places
        self._lines: TypedLines

    async def run(self, *, task_status: TaskStatus[str]) -> None:
        """Open the worker and converse; a failure to open is raised to the caller."""
        started = False
        try:
            worker = load_worker(self.asked.worker)
            with self._scope, self.asked.open_session(worker, warn) as session:
                async with self._open(worker, session) as runtime:
                    started = True
                    self._attend()
                    self.view.set_live(True)
                    task_status.started(self.id)
                    parked = _is_parked(session)
                    await runtime.converse(
                        resume=parked, on_begin=self.queue.began, on_end=self._on_end
                    )
            if session.log and not session.resumed:
                remove_unused(session.log.path)
            if not started:
                raise UsageError("the server ends; nothing new is started")
        except (
            Exception
        ) as error:  # the outermost frame of a session: one that fails must not end the others
            cause = innermost(error)
            if not started:
                raise cause from None
            self.view.drawing.ending = (
                str(cause) if isinstance(cause, ForgeError) else error_text(cause)
            )
        finally:
            if started:
                self.view.on_tabs = lambda: None
                self.view.set_live(False)
            self.ended.set()

    def end_now(self, end: ForcedEnd) -> None:
        """End it from another thread, because third-party code holds the process."""
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
            if line.seq > known:
                view.take(line)
        if session.resumed:
            past = session.resumed.past.messages
            said = [
                message for message in past if message.role == "user" and not is_own(message.text)
            ]
            self.queue.last = TypedMessage(said[-1].text, said[-1].attachments) if said else None
        wiring = Wiring(host=host, sinks=(view.take,))
        runtime = self.asked.runtime(
            worker, session, wiring, bus=self.bus, interrupt_signal=self._signal
        )
        self.runtime = runtime
        facts.tools = lambda: runtime.tools
        self.bus.subscribe(self._hear)
        view.on_tabs = self._attend
        return runtime

    # --- what is heard

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
            self.queue.leave()  # so that it can be answered, and resumed then

    def _attend(self) -> None:
        """Requests wait for a tab to come; where they are to be parked, those do that come while no tab is open."""
        parks = self.asked.on_ask is OnAsk.PARK
        waits = not parks or bool(self.view.tabs) or any(map(self.bus.is_open, self.requests))
        if waits and self._attending is None:
            self._attending = self.bus.subscribe(lambda event: None, answers=True)
        elif not waits and self._attending is not None:
            self._attending()
            self._attending = None

    # --- what people do

    @contextmanager
    def _ending_with_its_log(self) -> Iterator[None]:
        """Nothing more is done in a session whose log cannot be written."""
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
        """Do what a line says that somebody typed in a tab; what a command shows is for that tab."""
        if not text.strip() and not attachments:
            raise UsageError("the message is empty")
        chat = TabChat(self.view.drawing.facts, columns, self.queue.leave)
        with self._ending_with_its_log():
            await self._lines.enter(chat, text.strip(), attachments)
        self._lines.attached += chat.attached
        return chat.answer()

    def retry(self) -> None:
        """Say the last message again, with the files that went along with it."""
        if self.queue.last is None:
            raise UsageError("nothing was said in this session yet")
        with self._ending_with_its_log():
            self.queue.send(self.queue.last)

    def complete(self, text: str) -> list[JsonObject]:
        """Completions of the text before the cursor."""
        tools = self.runtime.tools if self.runtime else ()
        completion = InputCompletion(self.view.drawing.facts, lambda: tools, self._places)
        return [asdict(candidate) for candidate in completion.candidates(text)]

    def answer(self, request_id: str, choice: str, feedback: str) -> None:
        """Decide a request; the first answer counts."""
        request = self.requests.get(request_id)
        if request_id in self._answered or (request and not self.bus.is_open(request_id)):
            raise AnsweredBefore(self._answered.get(request_id, "session"))
        if request is None:
            raise UsageError(f"there is no request '{visible(request_id)}'")
        decision = _decision(request, choice, feedback)
        with self._ending_with_its_log():
            self.bus.answer(request_id, decision)

    def reply(self, request_id: str, content: str | None) -> None:
        """Give the line that was asked for; None declines."""
        if not self.bus.is_open(request_id):
            raise AnsweredBefore("user")
        with self._ending_with_its_log():
            self.bus.emit(UserInput(request_id, content or ""))

    def invoke(self, tool: str, args: Mapping[str, Any]) -> None:
        """Call a tool by hand, once its args fit."""
        known = self.view.drawing.facts.manual_tools
        tools = self.runtime.tools if self.runtime and tool in known else ()
        found = next((each for each in tools if each.name == tool), None)
        if found is None:
            raise UsageError(f"there is no tool '{visible(tool)}' that a person may call")
        try:
            found.schema.validate(args)
        except InvalidInput as error:
            raise UnfitArgs(error) from None
        with self._ending_with_its_log():
            self.bus.emit(ManualToolInvoke(tool, dict(args)))

    def interrupt(self) -> JsonObject:
        """Stop what runs; what waited comes back to the tab, to be changed, and its files go with the next message."""
        taken: list[str] = []
        if self.queue.busy:
            while self.queue.queue:
                taken.insert(0, self._lines.take_back() or "")
            with self._ending_with_its_log():
                self.queue.interrupt()
        files = ", ".join(visible(file.name) for file in self._lines.attached) if taken else ""
        return {
            "text": "\n".join(taken),
            "shown": f"{files} goes with your next message" if files else "",
        }

    def stop(self, reason: str | None = None) -> None:
        """End it, as a command ends that runs a worker."""
        if self.runtime is None or not self.runtime.has_started:
            self._scope.cancel()
            return
        with suppress(SessionLost), self._ending_with_its_log():
            if reason:
                self.queue.stop(reason)
            else:
                self.queue.leave()


def _is_parked(session: OpenSession) -> bool:
    """Return True if a request of it waits, or was answered since; then it resumes without a message."""
    return session.resumed is not None and any(pending_of(session.resumed.past))


def _decision(request: ApprovalRequest, choice: str, feedback: str) -> ApprovalDecision:
    note = " ".join(feedback.split()) or None
    if choice == "once":
        return ApprovalDecision(True)
    if choice == "no":
        return ApprovalDecision(False, note=note)
    offer = chosen_offers(request).get(choice)
    if offer is None:
        raise UsageError(f"'{visible(choice)}' is not one of the choices")
    return ApprovalDecision(True, remember="session", grant=None if offer == THIS_CALL else offer)


class TabChat:
    """The conversation, as the commands of one line see it."""

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
        raise UsageError("a page shows every result whole", hint="a call opens by a click")

    async def ask(self, prompt: str, instead: str) -> None:
        """Say what to do instead: a page takes no line for one command."""
        self.show(instead)

    async def fill(self, tool: str, given: Mapping[str, Any]) -> None:
        """The page shows the form, and calls the tool itself."""
        self._form = {"tool": tool, "given": jsonable(given)}

    def attach(self, attachment: Attachment) -> None:
        self.attached.append(attachment)

    @property
    def trace(self) -> TraceLevel:
        _no_trace()

    def set_trace(self, level: TraceLevel) -> None:
        _no_trace()

    def answer(self) -> JsonObject:
        """The answer to the tab."""
        shown = "\n".join(line.rstrip() for line in self._said.getvalue().rstrip("\n").split("\n"))
        return {"shown": shown, "form": self._form}


def _no_trace() -> NoReturn:
    raise UsageError("a page has no trace level", hint="every call opens by a click")
