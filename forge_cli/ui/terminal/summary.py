"""The last line of a session: how it ended and what it took, the most important things first where room is short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forge_cli.core.text import counted
from forge_cli.ui.terminal.calls import SEPARATOR
from forge_cli.ui.terminal.cells import cell_width
from forge_cli.ui.terminal.status import compact, duration, format_cost


def summarize(result: Mapping[str, Any], used: int, window: int | None, *, width: int | None = None) -> str:
    """``completed · 3 turns · 5 calls · 2.5k in (800 cached), 112 out · $0.91 · 12 % of the window · 14 s``.

    Where that is wider than ``width``, parts are left out: first the window, then the time, and so on to the left.
    """
    denied = len(result.get("denials", ()))
    calls = counted(result["tool_calls"], "call") + (f" ({denied} refused)" if denied else "")
    tokens, cost = format_tokens(result.get("usage", {})), result.get("cost")
    share = f"{used / window:.0%}".replace("%", " %") + " of the window" if window and used else ""
    took = duration(result["duration_ms"] / 1000)
    by_importance = [
        str(result["status"]),
        counted(result["turns"], "turn"),
        calls,
        tokens,
        "" if cost is None else format_cost(cost),
        took,
        share,
    ]
    parts = [part for part in by_importance if part]
    while width is not None and len(parts) > 1 and cell_width(SEPARATOR.join(parts)) > width:
        parts.pop()
    if share and parts[-1] == share:
        parts[-2:] = [share, took]
    return SEPARATOR.join(parts)


def format_tokens(usage: Mapping[str, int]) -> str:
    """What was sent and received; what the provider's cache knew counts as sent. Empty where nothing was."""
    cached = usage.get("cache_read_tokens", 0)
    sent = usage.get("input_tokens", 0) + cached + usage.get("cache_write_tokens", 0)
    of_it, received = f" ({compact(cached)} cached)" if cached else "", usage.get("output_tokens", 0)
    return f"{compact(sent)} in{of_it}, {compact(received)} out" if sent or received else ""
