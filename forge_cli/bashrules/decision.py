"""The three decisions of rules on a line, from the loosest to the strictest."""

from __future__ import annotations

from enum import Enum


class Decision(Enum):
    """The decision on a command or a whole line.

    This is a plain Enum, because members of a StrEnum compare alphabetically: "ask" would be less
    than "preApproved", and the stricter of the two would be the looser one.
    """

    PRE_APPROVED = "preApproved"
    ASK = "ask"
    BLOCKED = "blocked"

    @classmethod
    def strictest(cls, *decisions: Decision) -> Decision:
        """Return the strictest of the decisions; ``ask`` if there is none."""
        return max(decisions, key=_ORDER.index, default=cls.ASK)


_ORDER = (Decision.PRE_APPROVED, Decision.ASK, Decision.BLOCKED)
