"""The work of a session in the background: its task, then the messages that were sent to it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from forge_cli.cli.background.places import place_to_run
from forge_cli.cli.background.start import Started
from forge_cli.cli.notices import warn
from forge_cli.core.bounds import ForcedEnd
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ExitCode, ForgeError, UsageError
from forge_cli.core.text import visible
from forge_cli.engine.runtime.options import RunOptions
from forge_cli.engine.runtime.result import WorkerResult
from forge_cli.engine.runtime.unattended import Unattended
from forge_cli.engine.runtime.wiring import Wiring
from forge_cli.files.worker import load_worker
from forge_cli.process.signals import interruptible
from forge_cli.process.watchdog import say_fault
from forge_cli.record.control import ControlSocket
from forge_cli.record.open import OpenSession
from forge_cli.record.places import session_file
from forge_cli.record.runs import WaitingMessages
from forge_cli.sandbox.secrets import own_redactor
from forge_cli.ui.terminal.terminal import TerminalUI


async def work_in_background(
    asked: RunOptions, started: Started, output: Path | None, *, attends: bool
) -> ExitCode:
    """Run the task and each message that is sent meanwhile; report once the session has begun."""
    bus = EventBus()
    worker = load_worker(asked.worker)
    host = asked.host(worker)
    # With a task of None, a session without unfinished work may be resumed for a waiting message.
    with asked.open_session(worker, warn, task=asked.task or None) as session:
        if session.log is None:
            raise ForgeError("a session in the background needs a log", hint="check your home")
        messages = WaitingMessages(session.id)
        unattended = Unattended(bus, messages)
        asked = _with_task(asked, session, unattended)
        control = ControlSocket(
            bus,
            session_file(session.id),
            watchable=True,
            on_message=unattended.take,
            on_stop=unattended.stop,
        )
        runtime = asked.runtime(worker, session, Wiring(host=host, control=control), bus=bus)
        screen = TerminalUI(
            bus,
            output=sys.stdout,
            trace=asked.trace,
            trace_output=sys.stderr,
            stream_text=False,
            interactive=False,
            find=host.renderer,
        )

        def leave(end: ForcedEnd) -> int:
            """Finish without the event loop, because third-party code blocks the process."""
            result = runtime.ending.force(end)
            say_fault(end)
            session.close_log()
            return result.exit_code

        with interruptible(runtime.interrupt, lambda: runtime.has_started, leave):
            async with place_to_run(session.id, started), screen, runtime:
                started.report()
                stop_attending = unattended.attend() if attends else lambda: None
                try:
                    result = await runtime.run(asked.task, asked.attachments)
                    while result.status == "completed":
                        message = unattended.next_message()
                        if message is None:
                            break
                        result = await runtime.run(message)
                    await runtime.ending.announce()
                finally:
                    stop_attending()
                result = runtime.result or result
                _finish(result, output)
    return result.exit_code


def _with_task(asked: RunOptions, session: OpenSession, unattended: Unattended) -> RunOptions:
    """Return the options with a waiting message as the task, if there is nothing else to do."""
    past = session.resumed.past if session.resumed else None
    if asked.task or past is None or past.unfinished:
        return asked
    message = unattended.next_message()
    if message is None:
        hint = f'say what to do next: forge send {session.id} "TEXT"'
        raise UsageError(f"the session {session.id} has nothing left to do", hint=hint)
    return replace(asked, task=message)


def _finish(result: WorkerResult, output: Path | None) -> None:
    redact = own_redactor().redact_text
    if output is not None and result.status == "completed":
        from forge_cli.record.target import write_target

        try:
            write_target(output, result.text.removesuffix("\n") + "\n")
        except OSError as error:
            warn(f"-o {output}: the answer could not be written: {error.strerror}")
    if result.error:
        sys.stderr.write(f"forge: {visible(redact(result.error), keep=chr(10))}\n")
