"""Commands that keep running between calls: each has a number, its unread output, and what may read its input."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio

from forge_cli.bashrules.line import read
from forge_cli.bashrules.stdin import is_bare_shell, may_be_shell, may_read, moves_shell
from forge_cli.core.errors import ToolError, ToolInterrupted
from forge_cli.core.notify import Notify, RunningCommand, StatusNotice
from forge_cli.core.phrases import INTERRUPTED_CALL
from forge_cli.core.results import Custom
from forge_cli.sandbox.names import shown
from forge_cli.sandbox.processes import outcome
from forge_cli.sandbox.processes.child import Child

SESSION = "shell.session"
INTERRUPT, END = "\x03", "\x04"
"""Ctrl+C, and Ctrl+D, which ends the input behind other characters, too."""
SESSIONS_AT_MOST = 8
_BEYOND_ASCII = 0x80


@dataclass
class ProcessSession:
    """One command at work."""

    number: int
    command: str
    child: Child
    encoding: str = "utf-8"
    """Of what it reads, and of what it writes."""
    shell: bool = False
    """It is a bare bash: each line written to it is a command line."""
    other_shell: bool = False
    """It may read commands in a grammar that the rules do not know."""
    doubt: str | None = None
    """Why a line that is pre-approved elsewhere asks here."""
    moved: str = ""
    """The lines by which it may have left the working directory, or made links in it."""
    unfinished: str = ""
    """The end of what was written, which the next characters may continue."""

    def judged_text(self, chars: str) -> str:
        """The lines that a shell would have read in whole once it got these characters."""
        return self.unfinished + chars.removesuffix(END)

    def wrote(self, chars: str, *, pre_approved: bool) -> None:
        text = self.judged_text(chars)
        self.doubt = self.doubt or self._new_doubt(text, pre_approved)
        self.unfinished = _last_line(text)
        self.moved += moves_shell(read(text.removesuffix(self.unfinished)))

    @staticmethod
    def _new_doubt(text: str, pre_approved: bool) -> str | None:
        if not pre_approved:
            return "something was written to this shell before that is not pre-approved"
        if may_read(read(text)):
            return "a command in this shell may read it (one that is started with < /dev/null does not)"
        return None

    def encode(self, chars: str) -> bytes:
        """The characters as bytes of the locale; a shell must not find others in them than were judged."""
        try:
            data = chars.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"nothing was written: {self._locale} has no {_name(chars[error.start])}"
            ) from None
        for char in chars if self.shell else "":
            if not char.isascii() and min(char.encode(self.encoding)) < _BEYOND_ASCII:
                raise ToolError(
                    f"nothing was written: in {self._locale} a shell may misread {_name(char)}"
                )
        return data

    @property
    def _locale(self) -> str:
        return f"{self.encoding}, the encoding of the locale,"

    async def write(self, data: bytes) -> None:
        if self.child.stdin is None:
            raise ToolError(f"session {self.number} takes no input")
        await self.child.stdin.write(data.removesuffix(END.encode()))
        if data.endswith(END.encode()):
            self.child.stdin.close()

    def interrupt(self) -> None:
        """Interrupt as Ctrl+C does: a bare shell continues with its next line, what it has started does not."""
        contained = self.child.tree.contained
        if not contained and not self.shell:
            with suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGINT)
            return
        members = self.child.tree.members()
        keepers = {
            one.pid for one in members if contained and self.child.pid in (one.pid, one.parent)
        }
        inside = [one for one in members if one.pid not in keepers]
        first = next(
            (one.pid for one in inside if one.pid == self.child.pid or one.parent in keepers), None
        )
        for one in inside:
            if not (self.shell and one.pid == first):
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGINT)

    def interrupted(self) -> ToolInterrupted:
        """The error of a session that was stopped with the call that started it."""
        output = self.child.stdout.take(outcome.READ_AT_ONCE)
        value = _value(None, "interrupted", INTERRUPTED_CALL, output, running=False)
        return ToolInterrupted("interrupted", value=value if output else None)

    async def wait(self, seconds: float, show: Callable[[str], None]) -> None:
        """Until the command has ended, or for so long; ``show`` gets what it has printed last."""
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as watching:
                watching.start_soon(self.child.watch, show)
                await self.child.ended.wait()
                watching.cancel_scope.cancel()


def _name(char: str) -> str:
    return f"{shown(char)} (U+{ord(char):04X})"


def _last_line(text: str) -> str:
    """The text behind the last newline that surely ends a line: one behind a backslash may not."""
    end = text.rfind("\n")
    while end > 0 and text[end - 1] == "\\":
        end = text.rfind("\n", 0, end)
    return text[end + 1 :]


def _value(
    number: int | None, state: str, told: str, output: str, *, running: bool, **more: int | None
) -> Custom:
    data = {"sessionId": number, "output": output, "running": running, **more}
    return Custom(SESSION, data, summary=state, model_text=f"{told}\n{output}")


class Sessions:
    """The sessions of one toolset, by number."""

    def __init__(self, notify: Notify) -> None:
        """``notify`` is told which commands are running, whenever that changes."""
        self._notify = notify
        self._sessions: dict[int, ProcessSession] = {}
        self._running: dict[int, RunningCommand] = {}
        """Those that somebody was told of."""
        self._last = 0

    def add(
        self, command: str, child: Child, *, encoding: str = "utf-8", doubt: str | None = None
    ) -> ProcessSession:
        self._last += 1
        bash = is_bare_shell(read(command))
        session = ProcessSession(
            self._last, command, child, encoding, bash, not bash and may_be_shell(command), doubt
        )
        self._sessions[self._last] = session
        return session

    def check_room(self) -> None:
        """An error unless there is room for one more."""
        if len(self._sessions) >= SESSIONS_AT_MOST:
            raise ToolError(
                f"sessions {self._known()} are open, which is the most; read or end one first"
            )

    def get(self, number: int) -> ProcessSession:
        if number not in self._sessions:
            raise ToolError(f"there is no session {number}; open are: {self._known()}")
        return self._sessions[number]

    def close(self, session: ProcessSession) -> None:
        self._sessions.pop(session.number, None)

    def _keep_running(self, session: ProcessSession) -> None:
        """Let people know of a command that works on after its call."""
        number = session.number
        if number in self._running:
            return
        started = time.time() - (time.monotonic() - session.child.since)
        self._running[number] = RunningCommand(number, session.command, started)
        session.child.on_end.append(lambda: self._tell_end(number))
        self._tell()

    def _tell_end(self, number: int) -> None:
        if self._running.pop(number, None):
            self._tell()

    def _tell(self) -> None:
        running = tuple(self._running.values())
        self._notify(
            "debug", StatusNotice(f"commands running: {len(running)}", "commands", running=running)
        )

    def end(self) -> None:
        """Tell nothing any more: what still runs ends with the worker."""
        self._running.clear()

    async def news(
        self,
        session: ProcessSession,
        milliseconds: int,
        show: Callable[[str], None],
        at_most: int = outcome.READ_AT_ONCE,
    ) -> Custom:
        """The output of a session since the last time, and whether it still runs; the end of one may be an error."""
        await session.wait(milliseconds / 1000, show)
        child, number = session.child, session.number
        output = child.stdout.take(min(at_most, outcome.READ_AT_ONCE))
        if child.running or child.stdout.pending:
            if child.running:
                self._keep_running(session)
            state = f"session_id: {number}{'' if child.running else ' (it has ended; more output waits)'}"
            return _value(number, state, state, output, running=child.running)
        self.close(session)
        done = child.finished()
        state = outcome.describe_end(done)
        ended = {"exitCode": done.exit_code, "signal": done.signal}
        told = outcome.with_hint(state, done, output)
        return outcome.result(
            _value(None, state, told, output, running=False, **ended), done, state
        )

    def _known(self) -> str:
        return ", ".join(map(str, self._sessions)) or "none"
