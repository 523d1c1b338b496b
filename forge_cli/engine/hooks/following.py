"""Observers of the record: each is told every line as it is written, and costs the session nothing when it fails."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from forge_cli.core.bounds import call_within, fault_text
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import ForgeError
from forge_cli.core.events import StatusEvent
from forge_cli.core.observers import HookCall, Observer
from forge_cli.engine.hooks.hooks import SECONDS, FindObserver, Hook, HookFailed, checked, hooks_of
from forge_cli.record.line import Line

if TYPE_CHECKING:
    from forge_cli.engine.runtime.prepared import PreparedFolder


class Follower:
    """A sink of the record for one ``record`` hook; one that fails is told nothing more in this session."""

    only_keeps: ClassVar[bool] = True

    def __init__(self, hook: Hook, find_observer: FindObserver, bus: EventBus) -> None:
        self._hook, self._find, self._bus = hook, find_observer, bus
        self._observer: Observer | None = None
        self._over = False

    def __call__(self, line: Line) -> None:
        if self._over or line.transient:
            return
        try:
            note = self._tell(line)
        except HookFailed as failure:
            self._over = True
            note = f"{failure}; it is told nothing more in this session"
        if note:
            self._bus.emit(StatusEvent("warning", self._hook.message(note)))

    def _tell(self, line: Line) -> str | None:
        told = HookCall(event="record", session=line.session, worker=line.worker, line=line.data)
        try:
            self._observer = self._observer or self._find(str(self._hook.config.observer))
            said = call_within(SECONDS, f"the observer {self._hook.title}", partial(self._observer.observe, told))
        except ForgeError as error:
            raise HookFailed(str(error)) from None
        except Exception as error:  # third-party code
            raise HookFailed(fault_text(error)) from error
        if inspect.iscoroutine(said):
            said.close()
            raise HookFailed("it is async, and the record waits for no hook")
        answer = None if said is None else checked(said)
        if answer is not None and answer.verdict is not None:
            raise HookFailed(f"it says {answer.verdict}, and the record tells what has happened already")
        return answer.note if answer else None


def followers(folder: PreparedFolder, bus: EventBus) -> Iterator[Follower]:
    """A sink for each ``record`` hook that holds in a folder."""
    for hook in hooks_of(folder.settings.hooks, folder.worker.home):
        if hook.config.on == "record":
            yield Follower(hook, folder.worker.host.observer, bus)
