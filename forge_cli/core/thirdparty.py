"""Third-party code: an inspection is told before any of it is imported or called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from forge_cli.core.errors import ExitCode, ForgeError

LONGEST_ERROR = 2000
"""Characters of what third-party code says at its import that are passed on."""

Watch = Callable[[str], None]

LOADED = set[str]()
"""Third-party code that this process has, by what sentences blame."""
_watch: ContextVar[Watch | None] = ContextVar("third_party", default=None)


class ThirdPartyError(ForgeError):
    """Third-party code kept the child that looked at it from answering."""

    exit_code = ExitCode.INVALID


class NeedsThirdParty(BaseException):
    """The question cannot be answered without third-party code, which does not belong into this process."""


def needs_third_party(error: BaseException) -> bool:
    """Return True if that is why something ended, alone or in a group."""
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return isinstance(error, NeedsThirdParty) or any(map(needs_third_party, inner))


def announce_third_party(name: str) -> None:
    """Called before code that is not forge's own is imported or called; ``name`` is what a sentence blames."""
    if watch := _watch.get():
        watch(name)
    LOADED.add(name)


def before_call(name: str) -> None:
    """Called before any tool that this process has loaded: it begins a time of its own."""
    watch = _watch.get()
    if watch and watch is not deny_third_party:
        watch(name)


def is_inspecting() -> bool:
    """Return True if what is opened here is looked at, and not used."""
    return _watch.get() is not None


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def deny_third_party(name: str) -> None:
    """The watch of a process in which no third-party code is to run."""
    raise NeedsThirdParty(name)
