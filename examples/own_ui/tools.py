"""A shop with two things to sell."""

from forge_cli import tool

PRICES = {"bread": 2, "honey": 7}
STOCK = {"bread": 3, "honey": 1}


@tool(manual="both", read_only=True, needs_approval=False)
def price(item: str) -> str:
    """Say what something costs."""
    return f"{item} costs {PRICES[item]}"


@tool(manual="both", needs_approval=True)
def sell(item: str) -> str:
    """Sell one of something."""
    STOCK[item] -= 1
    return f"sold one {item}, {STOCK[item]} left"
