"""Commands that keep running between calls: each has a number and unread output."""

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
"""Ctrl+C and Ctrl+D; Ctrl+D after other characters ends the input, too."""
SESSIONS_AT_MOST = 8
_BEYOND_ASCII = 0x80


@dataclass
class ProcessSession:
    """A command that runs between calls."""

    number: int
    command: str
    child: Child
    encoding: str = "utf-8"
    """The encoding of its input and output."""
    shell: bool = False
    """True for a plain bash, which executes each line written to it."""
    other_shell: bool = False
    """True if it may execute commands in a syntax that the rules do not know."""
    doubt: str | None = None
    """Why a line that would be pre-approved elsewhere asks here."""
    moved: str = ""
    """Earlier lines that may have changed the folder, or made links in it."""
    unfinished: str = ""
    """The last line written, which the next characters may continue."""

    def judged_text(self, chars: str) -> str:
        """Return the complete lines that a shell has after it reads these characters."""
        return self.unfinished + chars.removesuffix(END)

    def wrote(self, chars: str, *, pre_approved: bool) -> None:
        text = self.judged_text(chars)
        self.doubt = self.doubt or self._new_doubt(text, pre_approved)
        self.unfinished = _last_line(text)
        self.moved += moves_shell(read(text.removesuffix(self.unfinished)))

    @staticmethod
    def _new_doubt(text: str, pre_approved: bool) -> str | None:
        if not pre_approved:
            return "earlier input of this shell was not pre-approved"
        if may_read(read(text)):
            return "a command in this shell may read it; start commands with < /dev/null"
        return None

    def encode(self, chars: str) -> bytes:
        """Encode characters for the locale; refuse those that a shell could misread."""
        try:
            data = chars.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"nothing was written: {self._locale} lacks {_name(chars[error.start])}"
            ) from None
        if not self.shell:
            return data
        # In some encodings, such as Shift JIS, a byte of another character can be a backslash.
        for char in chars:
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
            raise ToolError(f"the input of session {self.number} is closed")
        await self.child.stdin.write(data.removesuffix(END.encode()))
        if data.endswith(END.encode()):
            self.child.stdin.close()

    def interrupt(self) -> None:
        """Send an interrupt as Ctrl+C does; a plain shell survives it, its commands do not."""
        contained = self.child.tree.contained
        if not contained and not self.shell:
            with suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGINT)
            return
        # In a container, the first process and the one that started it keep the others alive:
        # only what they have started is interrupted, except for a plain shell.
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
        """Return the error for a session that was stopped with the call that started it."""
        output = self.child.stdout.take(outcome.READ_AT_ONCE)
        value = _value(None, "interrupted", INTERRUPTED_CALL, output, running=False)
        return ToolInterrupted("interrupted", value=value if output else None)

    async def wait(self, seconds: float, show: Callable[[str], None]) -> None:
        """Wait until the command ends or the time is over; ``show`` gets its latest output."""
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as watching:
                watching.start_soon(self.child.watch, show)
                await self.child.ended.wait()
                watching.cancel_scope.cancel()


def _name(char: str) -> str:
    return f"{shown(char)} (U+{ord(char):04X})"


def _last_line(text: str) -> str:
    """Return the text after the last newline that has no backslash before it."""
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
        """``notify`` is called with the running commands whenever they change."""
        self._notify = notify
        self._sessions: dict[int, ProcessSession] = {}
        self._running: dict[int, RunningCommand] = {}
        """The running commands that were reported."""
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
        """Raise ToolError if there are too many sessions."""
        if len(self._sessions) >= SESSIONS_AT_MOST:
            raise ToolError(
                f"there are {SESSIONS_AT_MOST} open sessions: {self._known()}; end one first"
            )

    def get(self, number: int) -> ProcessSession:
        if number not in self._sessions:
            raise ToolError(f"there is no session {number}; open sessions: {self._known()}")
        return self._sessions[number]

    def close(self, session: ProcessSession) -> None:
        self._sessions.pop(session.number, None)

    def _keep_running(self, session: ProcessSession) -> None:
        """Report a command that keeps running after its call."""
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
        """Report nothing from now on, because running commands end with the worker."""
        self._running.clear()

    async def news(
        self,
        session: ProcessSession,
        milliseconds: int,
        show: Callable[[str], None],
        at_most: int = outcome.READ_AT_ONCE,
    ) -> Custom:
        """Return the new output; raise an error that contains it if the command failed."""
        await session.wait(milliseconds / 1000, show)
        child, number = session.child, session.number
        output = child.stdout.take(min(at_most, outcome.READ_AT_ONCE))
        if child.running or child.stdout.pending:
            if child.running:
                self._keep_running(session)
            state = f"session_id: {number}"
            if not child.running:
                state += " (it has ended; there is more output to read)"
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
