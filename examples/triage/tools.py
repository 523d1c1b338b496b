"""Tool that assigns a ticket to a queue by its words."""

from forge_cli import tool

QUEUES = {
    "billing": ("invoice", "charged", "refund", "payment"),
    "access": ("password", "log in", "locked", "account"),
    "bug": ("crash", "error", "broken", "slow"),
}


@tool(read_only=True)
def find_queue(text: str) -> dict[str, object]:
    """Find the queue of a ticket.

    Args:
        text: The text of the ticket.
    """
    words = text.lower()
    queue = next(
        (name for name, signs in QUEUES.items() if any(sign in words for sign in signs)), "other"
    )
    return {"queue": queue, "urgent": "urgent" in words or "now" in words}
