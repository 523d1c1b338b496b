"""The outlook of a call, as data for people and programs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from forge_cli.core.approval import GrantOffer

VerdictAnswer = dict[str, Any]


class Outlook(Struct, frozen=True):
    """The outlook of a call: the verdict, what a prompt would offer, and where the rules stand that it met."""

    answer: VerdictAnswer
    offers: tuple[GrantOffer, ...] = ()
    met: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        return str(self.answer["verdict"])


def answer_of(tool: Any, verdict: str, reason: str, **more: Any) -> VerdictAnswer:
    empty = {"rule": None, "where": None, "by": None, "risk": None}
    return {"tool": tool, "verdict": verdict, "reason": reason, **empty, **more}
