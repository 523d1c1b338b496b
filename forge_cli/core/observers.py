"""Hooks for people: their calls and answers, and observers from plugins."""

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
    """The facts that a hook gets; a command reads them as JSON."""

    event: HookName
    session: str
    worker: str
    tool: str | None = None
    args: Mapping[str, Any] | None = None
    verdict: str | None = None
    """``preApproved``, ``ask`` or ``blocked``."""
    status: str | None = None
    """The status of the call, once it has ended."""
    request: str | None = None
    """The id of a pending approval request."""
    line: Mapping[str, Any] | None = None
    """For ``record``: a redacted line of the record, as written to the log."""

    def wire(self) -> JsonObject:
        """Return the JSON object that a command reads on standard input."""
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
    """A hook in Python, named in the config as ``observer: NAME``; it may be async.

    For ``record`` it is called while the line is written and is not awaited, so it must return at
    once and do slow work in its own thread. An observer that raises is not called again.
    """

    name: str
    observe: Callable[[HookCall], HookAnswer | Awaitable[HookAnswer | None] | None]
    close: Callable[[], object] | None = None
    """Called once when a process that used it exits; about two seconds remain for delivery."""


_closing: set[Callable[[], object]] = set()
"""Functions that are registered already, since each session makes its own observers."""


def close_at_exit(observer: Observer) -> None:
    """Close an observer when the process exits."""
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
