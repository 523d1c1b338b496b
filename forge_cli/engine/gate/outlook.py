"""The outlook of a call: its verdict before the call is made."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from forge_cli.core.approval import GrantOffer

VerdictAnswer = dict[str, Any]


class Outlook(Struct, frozen=True):
    """The verdict on a call, the grants that a prompt would offer, and the rules that matched."""

    answer: VerdictAnswer
    offers: tuple[GrantOffer, ...] = ()
    met: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        return str(self.answer["verdict"])


def answer_of(tool: Any, verdict: str, reason: str, **more: Any) -> VerdictAnswer:
    """Return an answer with every field that programs rely on."""
    empty = {"rule": None, "where": None, "by": None, "risk": None}
    return {"tool": tool, "verdict": verdict, "reason": reason, **empty, **more}
