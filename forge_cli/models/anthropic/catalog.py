"""What is known of a model by the family in its name: the context window, and how much one answer may hold."""

from __future__ import annotations

import re

MILLION, CLASSIC = 1_000_000, 200_000
ANSWER, CAUTIOUS_ANSWER = 32_000, 8_192
"""Thinking counts as part of the answer; every family below allows the larger one, a stranger may not."""

_WINDOWS = (
    (re.compile(r"claude-(fable|mythos)-"), MILLION),
    (re.compile(r"claude-(opus|sonnet|haiku)-([5-9]|\d\d)(-|$)"), MILLION),
    (re.compile(r"claude-(opus|sonnet)-4-[6-9](-|$)"), MILLION),
    (re.compile(r"claude-(opus|sonnet|haiku)-4(-|$)"), CLASSIC),
)


def context_window(model: str) -> int | None:
    """How many tokens the model can hold in mind; None where nobody here knows."""
    return next((window for family, window in _WINDOWS if family.search(model)), None)


def max_tokens(model: str) -> int:
    """How long one answer may get before it is cut off."""
    return CAUTIOUS_ANSWER if context_window(model) is None else ANSWER
