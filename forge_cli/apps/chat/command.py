"""The command ``forge chat``: a conversation with a worker."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import anyio
import anyio.lowlevel
import typer
from msgspec import Struct

from forge_cli.apps.chat.around import InputHistory, Notice, TextAbove
from forge_cli.apps.chat.drawing import ChatUI
from forge_cli.apps.chat.lost import lines_of_lost
from forge_cli.apps.chat.talk import KEYS, PlainLines, Talk
from forge_cli.cli.ask_trust import offer_trust
from forge_cli.cli.find_worker import find_trusted_worker
from forge_cli.cli.notices import resume_command, warn
from forge_cli.cli.offer import pick_model
from forge_cli.cli.options import new_app
from forge_cli.cli.output import code_of, data_output, loss_of, stop_on_loss
from forge_cli.cli.run_options import DraftWanted, SessionOptions, carried_out
from forge_cli.core.actions import CommandEvent
from forge_cli.core.bounds import ForcedEnd, begin_shutdown
from forge_cli.core.errors import ExitCode, ForgeError
from forge_cli.core.interrupt import HUNG_UP, Interrupted
from forge_cli.core.phrases import is_own
from forge_cli.core.text import readable, visible
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.files.home import forge_home
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.defaults import default_worker, model_of
from forge_cli.inspection.model_names import model_names
from forge_cli.inspection.worker_zones import declared_zones
from forge_cli.process.signals import interruptible
from forge_cli.process.stdin import is_interactive
from forge_cli.record.changes import remove_unused
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.ui.completion import InputCompletion
from forge_cli.ui.facts import Facts
from forge_cli.ui.places import Places
from forge_cli.ui.queue import TypedMessage
from forge_cli.ui.terminal.input import QuestionLeft
from forge_cli.ui.terminal.live import can_draw
from forge_cli.ui.transcript.entries import words_and_commands

if TYPE_CHECKING:
    from forge_cli.apps.chat.screen import ChatScreen
    from forge_cli.engine.plugins.host import PluginHost
    from forge_cli.engine.runtime.runtime import WorkerRuntime
    from forge_cli.engine.runtime.wiring import Said
    from forge_cli.record.open import OpenSession
    from forge_cli.record.resume import Past

app = new_app()


@app.command()
def chat(
    worker: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKER",
            help="Worker, as for run. Default: worker.yaml, a trusted one of the folder, or coder.",
        ),
    ] = None,
    *,
    options: SessionOptions,
) -> None:
    """Talk with a worker."""
    chosen = worker is not None
    worker = default_worker() if worker is None else worker
    options.require_consistent()
    interactive = is_interactive()
    if interactive and not options.model and not options.resumes and model_of(worker) is None:
        options = replace(options, model=pick_model())
    offer_trust(options.workspace)
    path = find_trusted_worker(worker, interactive=interactive, chosen=chosen)
    asked = replace(options.chosen(path, worker), interactive=interactive)
    with data_output() as out:
        code = carried_out(asked, talk, out)
    raise typer.Exit(code)


async def talk(asked: RunOptions, out: TextIO) -> ExitCode:
    """Run conversations until the person leaves; the task is the first message."""
    while True:
        left = await _talk(asked, out)
        if left.session is None:
            return left.code
        if asked.draft_link is not None:
            # The process outside of the view resumes the session.
            asked.draft_link.give_back(left.typed)
            return left.code
        asked = replace(
            asked,
            resume=left.session,
            last=False,
            fork=False,
            attachments=(),
            task="",
            reviews_answer=False,
            typed=left.typed,
            goes_on=left.wants_draft,
        )
        if left.wants_draft:
            raise DraftWanted(replace(asked, draft=True))


class _Left(Struct, frozen=True):
    """The end of a conversation."""

    code: ExitCode
    session: str | None = None
    """The session to resume next."""
    wants_draft: bool = False
    """True to resume it in a new draft."""
    typed: bytes = b""
    """Input for that session."""


async def _talk(asked: RunOptions, out: TextIO) -> _Left:
    """Run one session, and return how it was left."""
    from forge_cli.engine.runtime.wiring import Wiring

    worker = load_worker(asked.worker)
    host = asked.host(worker)
    with asked.open_session(worker, warn) as session:
        can_begin_draft = session.log is not None and asked.recording is None
        wiring = Wiring(host=host, can_begin_draft=can_begin_draft)
        runtime = asked.runtime(worker, session, wiring)
        room = Room(asked, session, runtime, host, out)
        stop_on_loss(out, room.talk.stop)

        def leave(end: ForcedEnd) -> int:
            """Record the end without the event loop, which third-party code blocks."""
            result = runtime.ending.force(end)
            if end.fault:
                room.terminal.write(f"forge: {visible(end.fault)}\n")
            session.close_log()
            return result.exit_code

        def on_key() -> None:
            room.talk.press_stop()
            if room.talk.leaving:
                begin_shutdown("interrupted", ExitCode.INTERRUPTED)

        with interruptible(room.talk.stop, lambda: runtime.has_started, leave, on_key=on_key):
            await room.converse(asked.task)
        if loss := loss_of(out):
            room.terminal.write(f"forge: {loss}\n")
            return _Left(code_of(loss))
    reason = room.talk.exit_reason
    another = runtime.next_session
    if session.log and asked.interactive and not session.resumed and another != session.id:
        remove_unused(session.log.path)
    hints = asked.interactive and asked.trace != "quiet" and not another
    if session.log and runtime.result and hints:
        room.terminal.write(f"resume with: {resume_command('chat', asked, session.id)}\n")
    code = Interrupted(reason).exit_code if reason else ExitCode.DONE
    return _Left(code, another, runtime.wants_draft, room.typed)


class Room:
    """The parts of a conversation and their connections."""

    def __init__(
        self,
        asked: RunOptions,
        session: OpenSession,
        runtime: WorkerRuntime,
        host: PluginHost,
        out: TextIO,
    ) -> None:
        worker = runtime.worker
        self._asked = asked
        self._worker = worker
        self._session = session
        self._runtime = runtime
        self._out = out
        self._redactor = own_redactor()
        self.terminal = sys.stderr
        has_screen = asked.interactive and can_draw(sys.stderr)
        facts = Facts(
            models=lambda: model_names(asked.workspace),
            tools=lambda: runtime.tools,
            keys=KEYS if has_screen else (),
        )
        for line in session.lines:
            facts.take(line)
        places = Places(asked.workspace, _zones(worker, asked))
        self._notice = Notice(self._write_raw)
        self.talk = Talk(
            runtime.bus,
            facts=facts,
            tools=lambda: runtime.tools,
            places=places,
            history=InputHistory(
                forge_home() / "history" / f"{worker.name}.jsonl", self._redactor.redact_text
            ),
            signal=runtime.interrupt_signal,
        )
        self._above = TextAbove(sys.stderr)
        self.screen: ChatScreen | None = None
        if has_screen:
            # Imported only for a screen, because prompt_toolkit is slow to load.
            kind: type[ChatScreen] = import_module("forge_cli.apps.chat.screen").ChatScreen
            completion = InputCompletion(facts, lambda: runtime.tools, places)
            self.screen = kind(self.talk, self._above, completion=completion, notice=self._notice)
        self._streams = out.isatty() and asked.trace != "quiet"
        terminal = cast(TextIO, self._above)
        if has_screen and self._streams:
            out = terminal  # answers grow above the input line
        self._ui = ChatUI(
            runtime.bus,
            output=out,
            terminal=terminal,
            trace=asked.trace,
            interactive=asked.interactive,
            stream_text=self._streams,
            find=host.renderer,
            live=self.screen,
            echo=has_screen,
            since=lambda: self.talk.since,
            on_question=self._on_question,
            on_stop=self._leave_question,
        )
        self._plain_lines = PlainLines(
            self.talk, self._ui, interactive=asked.interactive, typed=asked.typed
        )
        self._line = self.screen or self._plain_lines
        self.talk.display, self.talk.line = self._ui, self._line

    @property
    def typed(self) -> bytes:
        """Input that was read from a pipe and not used."""
        return self._plain_lines.typed

    async def converse(self, first: str) -> None:
        bus = self._runtime.bus
        bus.subscribe(self.talk.note)
        async with self._ui, self._runtime:
            self._greet()
            async with anyio.create_task_group() as tasks:
                if self.screen:
                    self.screen.on_enter = lambda text: tasks.start_soon(self.talk.enter, text)
                tasks.start_soon(self._answer)
                # Let it begin first: only then it hears messages on the bus.
                await anyio.lowlevel.checkpoint()
                await anyio.lowlevel.checkpoint()
                if first:
                    self.talk.say(first, self._asked.attachments)
                    if self._asked.reviews_answer:
                        again = CommandEvent("review")
                        self.talk.send(TypedMessage("/review", command=again))
                else:
                    for attachment in self._asked.attachments:
                        self.talk.attach(attachment)
                with self._own_streams():
                    await self._line.run()

    async def _answer(self) -> None:
        await self._runtime.converse(
            on_begin=self.talk.began, on_end=self._on_end, on_done=self._on_done
        )
        if not self.talk.leaving:
            self.talk.leave()

    @contextmanager
    def _own_streams(self) -> Iterator[None]:
        """Write everything that is printed above the input line."""
        if self.screen is None:
            yield
            return
        above = cast(TextIO, self._above)
        with redirect_stderr(above), redirect_stdout(above):
            yield

    def _greet(self) -> None:
        session = self._session
        past = session.resumed.past if session.resumed else None
        if self._asked.goes_on:
            return  # everything is on the screen already
        if past and self._asked.trace != "quiet":
            warn(f"resuming session {session.id}")
        if not self._asked.interactive or self._asked.trace == "quiet":
            return
        if self.screen:
            self._write_raw("\r\x1b[K")  # the echo of keys pressed before there was an input line
        title = self._worker.name
        if self._worker.config.description:
            title += visible(f": {self._worker.config.description}")
        self._ui.show(f"{title}\n/help lists the commands, Ctrl+D leaves.")
        if past:
            self._show_past(past)

    def _show_past(self, past: Past) -> None:
        """Show the last message with its answer, and interrupted calls."""
        said = [message for message in past.messages if message.text and not is_own(message.text)]
        asked = [place for place, message in enumerate(said) if message.role == "user"]
        if asked:
            self._ui.show_message(words_and_commands(said[asked[-1]].text)[0])
            if said[-1].role != "user":
                self._ui.show_answer(said[-1].text)
        for line in lines_of_lost(past):
            self._ui.show(line)

    def _leave_question(self, left: QuestionLeft) -> None:
        """End the turn after Esc or Ctrl+C, and the conversation if the terminal was closed."""
        if left.hung_up:
            self.talk.stop(HUNG_UP)
            return
        self.talk.press_stop(escape=not left.ctrl_c, at_question=True)

    def _on_question(self) -> None:
        self._notice.give(f"{self._worker.name} asks", self.talk.since or time.monotonic())

    def _on_done(self, said: Said, result: WorkerResult | None) -> None:
        # After a command that ends this conversation, what is typed belongs to the next one.
        if isinstance(said, CommandEvent) and not self._runtime.next_session:
            self.talk.command_ended()

    def _on_end(self, result: WorkerResult | None) -> None:
        since = self.talk.since or time.monotonic()
        if result is not None:
            self._write_answer(result)
        self.talk.ended(result.status if result else "failed")
        self._notice.give(f"{self._worker.name} has answered", since)

    def _write_answer(self, result: WorkerResult) -> None:
        """Print the answer if it was not streamed."""
        answer = result.text.removesuffix("\n")
        if answer and not self._streams:
            shown = self._redactor.redact_text(answer)
            if self.screen and self._out.isatty():
                self._ui.show(readable(shown))  # above the input line
                return
            self._out.write((readable(shown) if self._out.isatty() else shown) + "\n")
            self._out.flush()

    def _write_raw(self, text: str) -> None:
        if self._asked.interactive:
            with suppress(OSError, ValueError):
                self.terminal.write(text)
                self.terminal.flush()


def _zones(worker: Worker, asked: RunOptions) -> dict[str, Path]:
    """Return the folders of names such as ``/output/...``."""
    try:
        zones = (*declared_zones(worker, asked.workspace), *asked.zones)
    except ForgeError:  # reported when the worker is opened
        zones = asked.zones
    return {zone.name: zone.path for zone in zones}
