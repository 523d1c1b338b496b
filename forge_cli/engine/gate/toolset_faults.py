"""Faults of toolsets: two tools of one name, and code that the system refuses something."""

from __future__ import annotations

from forge_cli import sandbox
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.toolbox import OpenToolset, Toolbox

A_LOOK = "a look is read-only, has no network and sees little of the home: do this when a tool is first called"


def reason_of_look(error: BaseException) -> str:
    """In a look, that it is one, where that may be the reason for what a toolset raised."""
    return f" ({A_LOOK})" if sandbox.isolation.isolation.inherited() and _is_of_the_system(error) else ""


def _is_of_the_system(error: BaseException | None) -> bool:
    """Did a file, a folder or the network refuse?"""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        if isinstance(error, OSError) or type(error).__module__ == "sqlite3":
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def choose(toolbox: Toolbox, first: Offer, second: Offer, opened: OpenToolset) -> Offer:
    """One of two tools of one name; where they meet only in the middle of a session, the one that was there."""
    try:
        return _winner(toolbox, first, second, opened)
    except WorkerError as clash:
        known = toolbox.offers.get(first.tool.name)
        if known is None:
            raise
        opened.warn(None, f"{clash.message}; the first of them stays", toolbox.notify)
        return second if second.toolset == known.toolset else first


def _winner(toolbox: Toolbox, first: Offer, second: Offer, opened: OpenToolset) -> Offer:
    """The tool that is of a kind which may replace others."""
    replacing = {other.name for other in toolbox.toolsets if other.toolset.replaces}
    if (first.toolset in replacing) == (second.toolset in replacing):
        raise _clash(first, second, opened.where)
    winner, loser = (first, second) if first.toolset in replacing else (second, first)
    opened.warn(None, f"'{winner.tool.name}' of {winner.toolset} replaces the one of {loser.toolset}", toolbox.notify)
    return winner


def _clash(first: Offer, second: Offer, where: Mark | None) -> WorkerError:
    if first.toolset == second.toolset:
        return WorkerError(where, f"toolsets.{first.toolset}: it offers two tools called '{first.tool.name}'")
    both = " and ".join(f"'{offer.toolset}' ({offer.tool.source})" for offer in (first, second))
    hint = f"give one of them a prefix, as in {second.toolset}: {{prefix: {second.toolset}}}"
    return WorkerError(where, f"two toolsets offer a tool called '{first.tool.name}': {both}", hint=hint)
