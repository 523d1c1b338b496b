"""Hooks for people: what one is told, what it may answer, and the observers that plugins offer as hooks."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from forge_cli.core.bounds import fault_text
from forge_cli.core.source import HookName
from forge_cli.core.text import visible
from forge_cli.core.wire import JsonObject


class HookCall(Struct, frozen=True, kw_only=True):
    """The facts that a hook is told; a command reads them as JSON."""

    event: HookName
    session: str
    worker: str
    tool: str | None = None
    args: Mapping[str, Any] | None = None
    verdict: str | None = None
    """``preApproved``, ``ask`` or ``blocked``."""
    status: str | None = None
    """How the call has ended, after it."""
    request: str | None = None
    """The id of an approval that is waited for."""
    line: Mapping[str, Any] | None = None
    """For ``record``: a line of the record, redacted, as it stands in the log."""

    def wire(self) -> JsonObject:
        """The JSON object that a command reads on standard input."""
        told: JsonObject = {"event": self.event, "session": self.session, "worker": self.worker}
        told |= {
            "tool": self.tool,
            "input": None if self.args is None else dict(self.args),
            "verdict": self.verdict,
        }
        more = {"status": self.status, "request": self.request}
        return told | {key: value for key, value in more.items() if value is not None}


class HookAnswer(Struct, frozen=True):
    """The answer of a hook: it may tighten a verdict, never loosen it, and add a note."""

    verdict: Literal["ask", "blocked"] | None = None
    note: str | None = None


class Observer(Struct, frozen=True):
    """A hook in Python, which ``observer: NAME`` in the config names; it may be async.

    For ``record`` it is called where the line is written, and not awaited: it returns at once, and leaves slow work to
    a thread of its own. One that raises is told nothing more.
    """

    name: str
    observe: Callable[[HookCall], HookAnswer | Awaitable[HookAnswer | None] | None]
    close: Callable[[], object] | None = None
    """Called once when a process exits that has used it: the time to deliver what is left, in two seconds or so."""


_closing: set[Callable[[], object]] = set()
"""The functions that the exit calls already; a plugin host makes another observer for each of its sessions."""


def close_at_exit(observer: Observer) -> None:
    """Have an observer closed when the process exits."""
    if observer.close is not None and observer.close not in _closing:
        _closing.add(observer.close)
        atexit.register(_close, observer.name, observer.close)


def _close(name: str, close: Callable[[], object]) -> None:
    try:
        close()
    except Exception as error:  # third-party code
        sys.stderr.write(
            f"forge: the observer {visible(name)} was not closed: {visible(fault_text(error))}\n"
        )
