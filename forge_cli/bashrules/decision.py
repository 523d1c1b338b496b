"""The three answers of rules on a line, from the loosest to the strictest."""

from __future__ import annotations

from enum import Enum


class Decision(Enum):
    """The answer of rules on a command, or on a whole line.

    A plain Enum on purpose: the members of a StrEnum compare alphabetically, and "ask" < "preApproved" fails open.
    """

    PRE_APPROVED = "preApproved"
    ASK = "ask"
    BLOCKED = "blocked"

    @classmethod
    def strictest(cls, *decisions: Decision) -> Decision:
        """Return the strictest of these; ``ask`` if none is given."""
        return max(decisions, key=_ORDER.index, default=cls.ASK)


_ORDER = (Decision.PRE_APPROVED, Decision.ASK, Decision.BLOCKED)
