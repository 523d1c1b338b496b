"""The status line of a conversation: model, tokens, cost, how full the window is, the folder, the mode."""

from __future__ import annotations

from forge_cli.core.text import dollars, visible
from forge_cli.ui.facts import Facts
from forge_cli.ui.terminal.status import compact
from forge_cli.ui.views import near_home
from forge_cli.ui.wrap import cell_width, fit

_DROPPED = ("tokens", "folder", "cost", "window")
"""Parts that are left out where there is no room, in this order; the mode says what happens unasked, and stays."""


def status_line(facts: Facts, columns: int) -> str:
    """The facts on one line, as many of them as have room."""
    used = facts.usage
    read = used.sent_tokens
    parts = {
        "model": visible(facts.model),
        "tokens": f"{compact(read)} in, {compact(used.output_tokens)} out" if read else "",
        "cost": dollars(facts.cost) if facts.cost else "",
        "window": f"{facts.used / facts.window:.0%} of the window" if facts.window and facts.used else "",
        "folder": visible(near_home(facts.workspace)),
        "mode": facts.mode_title,
    }
    for count in range(len(_DROPPED) + 1):
        line = " · ".join(text for name, text in parts.items() if text and name not in _DROPPED[:count])
        if cell_width(line) < columns:
            return line
    mode = f" · {parts['mode']}"
    return fit(parts["model"], max(columns - 1 - cell_width(mode), 1)) + mode
