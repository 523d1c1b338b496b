"""Announcement of third-party code, so that inspections know before it is imported or called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from forge_cli.core.errors import ExitCode, ForgeError

LONGEST_ERROR = 2000
"""The most characters of an import error of third-party code that are passed on."""

Watch = Callable[[str], None]

LOADED = set[str]()
"""Third-party code that this process has loaded, by the name that messages use."""
_watch: ContextVar[Watch | None] = ContextVar("third_party", default=None)


class ThirdPartyError(ForgeError):
    """Third-party code kept an inspection from answering."""

    exit_code = ExitCode.INVALID


class NeedsThirdParty(BaseException):
    """The answer needs third-party code, which must not run in this process."""


def needs_third_party(error: BaseException) -> bool:
    """Return True if an error, or an error in its group, is a ``NeedsThirdParty``."""
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return isinstance(error, NeedsThirdParty) or any(map(needs_third_party, inner))


def announce_third_party(name: str) -> None:
    """Announce third-party code before it is imported or called; ``name`` is used in messages."""
    if watch := _watch.get():
        watch(name)
    LOADED.add(name)


def before_call(name: str) -> None:
    """Announce a call of a loaded tool, which starts its own time limit."""
    watch = _watch.get()
    if watch and watch is not deny_third_party:
        watch(name)


def is_inspecting() -> bool:
    """Return True if the current code only inspects what it opens."""
    return _watch.get() is not None


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Call ``watch`` before third-party code that the code inside imports or calls."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def deny_third_party(name: str) -> None:
    """Refuse third-party code; the watch of processes that must not run any."""
    raise NeedsThirdParty(name)
