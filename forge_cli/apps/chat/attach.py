"""The command ``forge attach``: the conversation of a session in the background, on a terminal."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TextIO, cast

import anyio
from anyio import from_thread, to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from forge_cli.apps.chat.around import InputHistory, Notice, TextAbove
from forge_cli.apps.chat.drawing import ChatUI
from forge_cli.apps.chat.talk import KEYS, PlainLines, Talk
from forge_cli.cli.background.common import (
    END_TIMEOUT,
    SessionArgument,
    find_background,
    require_run,
    wait_until_free,
)
from forge_cli.cli.background.start import start_again
from forge_cli.cli.options import new_app
from forge_cli.core.actions import (
    ApprovalResponse,
    CommandEvent,
    Interrupt,
    ManualToolInvoke,
    UserInput,
)
from forge_cli.core.approval import ApprovalRequest
from forge_cli.core.bus import EventBus, new_id
from forge_cli.core.errors import ForgeError, UsageError
from forge_cli.core.events import (
    ApprovalRequired,
    Event,
    InputPrompt,
    MessageEvent,
    SessionEnd,
    TurnStart,
)
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.wire import JsonObject
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.files.home import forge_home
from forge_cli.process.signals import in_loop
from forge_cli.process.stdin import is_interactive
from forge_cli.record.control import ENDED, RECEIPT
from forge_cli.record.control_client import ControlClient, NotListening, receipt_of
from forge_cli.record.line import Line
from forge_cli.record.overview import read_overview
from forge_cli.record.places import lock_holder
from forge_cli.record.runs import BackgroundRun
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.ui.completion import InputCompletion
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import Places
from forge_cli.ui.queue import TypedMessage
from forge_cli.ui.terminal.follow import FollowUI, LogTail, event_of, first_lines
from forge_cli.ui.terminal.keys import QuestionLeft
from forge_cli.ui.terminal.live import can_draw

app = new_app()

VIA = "forge attach"
"""The ``via`` of answers from here."""
MAX_DRAWN = 60
"""Events of the log that are drawn at the beginning."""
CONNECT_INTERVAL = 0.05
CONNECT_TIMEOUT = 20.0
"""Seconds that a session has to start again."""
OVER = "Ctrl+D leaves; a message starts the session again"


@app.command()
def attach(session: SessionArgument) -> None:
    """Watch a session in the background, answer it, talk with it.

    Ctrl+D leaves it running. A parked session is started again.
    """
    path = find_background(session)
    run = require_run(path)
    if not is_interactive():
        hint = f"forge logs {path.stem} -f prints what it does"
        raise UsageError("forge attach needs a terminal", hint=hint)
    if lock_holder(path) is None and path.exists() and read_overview(path).status == "parked":
        start_again(run)
    in_loop(_attach, path, run)


async def _attach(path: Path, run: BackgroundRun) -> None:
    room = AttachedRoom(path, run)
    await room.stay()
    if lock_holder(path) is not None:
        sys.stderr.write(f"{run.worker} works on; forge attach {path.stem} shows it again\n")


class AttachedUI(FollowUI, ChatUI):
    """The terminal of an attached session, with messages from elsewhere."""

    def keep_questions(self) -> None:
        """Let Ctrl+D leave a question as it is, because the session waits for its answer."""
        self._lines.leaves_at_end = True


class AttachedTalk(Talk):
    """A conversation whose messages go to the session, which keeps them until they are read."""

    room: AttachedRoom

    def send(self, message: TypedMessage) -> None:
        if message.command:
            self.room.refuse(message.text)
        else:
            self.room.say(message)

    def leave(self) -> None:
        """Leave the session as it is."""
        self.leaving = True
        self.display.leave_questions()
        self.line.end()

    def note(self, event: Event) -> None:
        if not isinstance(event, ManualToolInvoke):  # calls by hand stay in the session
            super().note(event)


class AttachedRoom:
    """A terminal that is a client of one session."""

    def __init__(self, path: Path, run: BackgroundRun) -> None:
        self._path = path
        self._run = run
        self._bus = EventBus()
        self._tasks: TaskGroup
        self._client: ControlClient | None = None
        self._received: set[int] = set()
        """The identities of events that came from the session."""
        self._requests: dict[str, ApprovalRequest] = {}
        self._tail: LogTail | None = None
        self._drawn = 0
        """The number of the last line that was drawn."""
        self._facts = Facts(keys=KEYS)
        places = Places(Path(run.folder), {})
        self._talk = AttachedTalk(
            self._bus,
            facts=self._facts,
            tools=tuple,
            places=places,
            history=InputHistory(
                forge_home() / "history" / f"{run.worker}.jsonl", own_redactor().redact_text
            ),
            signal=InterruptSignal(),
        )
        self._talk.room = self
        above = TextAbove(sys.stderr)
        self._above = above
        notice = Notice(sys.stderr.write)
        live = None
        if can_draw(sys.stderr):
            # Imported only for a screen, because prompt_toolkit is slow to load.
            from forge_cli.apps.chat.screen import ChatScreen

            completion = InputCompletion(self._facts, tuple, places)
            live = ChatScreen(self._talk, above, completion=completion, notice=notice)
        self._screen = live
        out = cast(TextIO, above)
        self._ui = AttachedUI(
            self._bus,
            output=out,
            terminal=out,
            trace="normal",
            interactive=True,
            stream_text=True,
            find=PluginHost().renderer,
            live=live,
            echo=live is not None,
            since=lambda: self._talk.since,
            on_question=lambda: None,
            on_stop=self._leave_question,
        )
        self._ui.keep_questions()
        self._talk.display = self._ui
        self._talk.line = live or PlainLines(self._talk, self._ui, interactive=True)

    async def stay(self) -> None:
        """Show the session until the person leaves."""
        self._bus.subscribe(self._talk.note)
        self._bus.subscribe(
            self._pass_on,
            only=(ApprovalResponse, UserInput, Interrupt, CommandEvent, ManualToolInvoke),
        )
        async with self._ui, anyio.create_task_group() as self._tasks:
            if self._screen:
                self._screen.on_enter = lambda text: self._tasks.start_soon(self._talk.enter, text)
            self._tasks.start_soon(self._follow)
            await self._talk.line.run()
            if self._client:
                self._client.disconnect()
            self._tasks.cancel_scope.cancel()

    # --- from the session

    async def _follow(self) -> None:
        """Draw what is new in the log, then everything that comes, until the session ends."""
        client = await to_thread.run_sync(self._connect)
        self._client = client
        self._draw_tail(client.seq if client and client.watches else None)
        if client is None:
            self._ui.show(f"{self._state()}; {OVER}")
            return

        def listen() -> None:
            for message in client.lines():
                from_thread.run_sync(self._take, message)

        client.connection.settimeout(None)
        if self._talk.since is None:
            self._talk.began()
        await to_thread.run_sync(listen, abandon_on_cancel=True)
        self._client = None
        if not self._talk.leaving:
            self._ui.show(f"{self._state()}; {OVER}")

    def _connect(self) -> ControlClient | None:
        """Connect to the session; None if no process works on it."""
        deadline = time.monotonic() + CONNECT_TIMEOUT
        while time.monotonic() < deadline:
            try:
                return ControlClient(self._path, watch=True)
            except NotListening:
                if lock_holder(self._path) is None:
                    return None
            time.sleep(CONNECT_INTERVAL)
        return None

    def _draw_tail(self, last: int | None) -> None:
        """Draw the lines of the log that were not drawn, up to the line ``last``."""
        if self._tail is None:
            self._tail = LogTail.last_screen(self._path)
            for line in first_lines(self._path):
                self._facts.take(line)
        new: list[Line] = []
        for line in self._tail.read():
            if line.seq > self._drawn and (last is None or line.seq <= last):
                new.append(line)
        for line in new[:-MAX_DRAWN]:
            self._facts.take(line)
        for line in new[-MAX_DRAWN:]:
            # Questions that are still open come from the session itself.
            if line.type not in (ApprovalRequired.type, InputPrompt.type, SessionEnd.type):
                self._emit(line)

    def _take(self, message: JsonObject) -> None:
        if message.get("type") == RECEIPT:
            self._take_receipt(message)
            return
        line = Line(message)
        event = event_of(line)
        match event:
            case None:
                return
            case ApprovalRequired(request=request):
                self._requests[request.request_id] = request
                self._tasks.start_soon(self._bus.repeat, event)
            case InputPrompt():
                self._tasks.start_soon(self._bus.repeat, event)
            case _:
                self._note_work(event)
                self._emit(line)

    def _note_work(self, event: Event) -> None:
        match event:
            case TurnStart(origin=None) | MessageEvent(origin=None) if self._talk.since is None:
                self._talk.began()
            case SessionEnd():
                status = event.result.get("status")
                self._talk.ended(status if status == "interrupted" else "completed")
            case _:
                pass

    def _emit(self, line: Line) -> None:
        event = event_of(line)
        if event is None:
            return
        self._drawn = max(self._drawn, line.seq)
        self._received.add(id(event))
        try:
            self._bus.emit(event)
        finally:
            self._received.discard(id(event))

    def _take_receipt(self, message: JsonObject) -> None:
        receipt = receipt_of(message)
        if receipt.counted:
            return
        if receipt.decision is not None:
            word = "yes" if receipt.decision.approved else "no"
            by = f" by {receipt.decision.via}" if receipt.decision.via else ""
            self._ui.show(f"already answered{by}: {word}")
        elif receipt.reason != ENDED:
            self._ui.show(f"not done: {receipt.reason}")

    # --- to the session

    def _pass_on(self, event: Event) -> None:
        if id(event) in self._received:
            return
        match event:
            case ApprovalResponse(request_id=request_id, decision=decision):
                request = self._requests.get(request_id)
                if request is not None and decision.via is None:
                    self._post_answer(request, event)
            case UserInput() | Interrupt():
                self._post(event)
            case CommandEvent(name=name) if name != "exit":
                self.refuse(f"/{name}")
            case ManualToolInvoke():
                self.refuse("a call by hand")
            case _:
                pass

    def _post_answer(self, request: ApprovalRequest, event: ApprovalResponse) -> None:
        said = replace(event, decision=replace(event.decision, via=VIA))
        self._post(said, fingerprint=request.fingerprint, stamp=request.stamp)

    def _post(self, action: Event, **more: str | None) -> None:
        if self._client is None:
            return
        try:
            self._client.post(action, **more)
        except OSError:
            self._ui.show("the session has ended")

    def say(self, message: TypedMessage) -> None:
        """Send a message to the session, or restart the session with the message."""
        if message.attachments:
            self._ui.show("files can only be attached when a session is started: --attach FILE")
        if self._client is not None:
            self._post(UserInput(new_id("message"), message.text))
            self._talk.line.hint("the session reads it after its current work")
            return
        self._tasks.start_soon(self._start_again, message.text)

    async def _start_again(self, text: str) -> None:
        def start() -> None:
            wait_until_free(self._path, END_TIMEOUT)
            start_again(self._run, text)

        try:
            await to_thread.run_sync(start)
        except ForgeError as error:
            self._ui.show(str(error))
            return
        await self._follow()

    def refuse(self, what: str) -> None:
        self._ui.show(
            f"{what} is not possible here; stop the session, and resume it with forge chat"
        )

    def _leave_question(self, left: QuestionLeft) -> None:
        if left.ctrl_d or left.hung_up:
            self._talk.leave()
        else:
            self._talk.press_stop(escape=not left.ctrl_c, at_question=True)

    def _state(self) -> str:
        try:
            return f"the session has ended: {read_overview(self._path).status}"
        except ForgeError:
            return "the session has not begun"
