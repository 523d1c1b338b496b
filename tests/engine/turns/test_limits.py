"""Limits: the smallest counts, budgets add up down a tree of workers, and going in circles ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from forge_cli.core.messages import Usage
from forge_cli.engine.turns.limits import Budget, LimitReached, merged
from forge_cli.engine.turns.prices import StatedPrice
from forge_cli.files.worker import Limits

DOLLAR = StatedPrice(1, 1)
"""A million tokens of any kind cost one dollar."""


class Clock:
    """A clock that advances on demand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def reached(budget: Budget) -> str | None:
    """Take a turn; return the message of an exceeded limit, or None."""
    try:
        budget.start_turn()
    except LimitReached as limit:
        return str(limit)
    return None


# --- merging

amounts = st.none() | st.floats(min_value=0.001, max_value=1e9)
counts = st.none() | st.integers(min_value=1, max_value=10**12)
some_limits = st.builds(
    Limits, max_turns=counts, max_tokens=counts, max_cost=amounts, max_time=amounts
)


@given(st.lists(some_limits, max_size=4))
def test_smallest_limit_of_each_kind_applies(limits: list[Limits]) -> None:
    found = merged(*limits)
    for name, value in found.model_dump().items():
        stated = [getattr(each, name) for each in limits if getattr(each, name) is not None]
        assert value == min(stated, default=50 if name == "max_turns" else None)


# --- one budget


def test_turns_have_a_default_limit() -> None:
    budget = Budget(Limits(), None)
    assert [reached(budget) for _ in range(51)] == [None] * 50 + [
        "the limit of 50 turns was reached"
    ]


@pytest.mark.parametrize(
    ("limit", "shown"),
    [(1.5, "$1.50"), (2, "$2.00"), (1234.5, "$1,234.50"), (0.001, "$0.001"), (0.125, "$0.125")],
)
def test_cost_is_computed_from_usage_and_price(limit: float, shown: str) -> None:
    budget = Budget(Limits(max_cost=limit), StatedPrice(0, limit * 1000))
    budget.spend(Usage(5_000_000, 999))
    assert reached(budget) is None
    budget.spend(Usage(output_tokens=1))
    assert budget.cost == pytest.approx(limit)
    budget.spend(Usage(output_tokens=1))
    assert reached(budget) == f"the limit of {shown} was reached"


def test_unknown_price_gives_an_unknown_cost_and_price_zero_gives_zero() -> None:
    assert Budget(Limits(), None).cost is None
    free = Budget(Limits(), StatedPrice(0, 0))
    free.spend(Usage(10, 10))
    assert free.cost == 0


# --- a tree of budgets


def test_explicit_limit_of_turns_includes_children() -> None:
    boss = Budget(Limits(max_turns=4), None, worker="boss")
    assert reached(boss) is None
    child = Budget(Limits(), None, parent=boss)
    used_up = "the limit of 4 turns of the worker 'boss' was reached"
    assert [reached(child) for _ in range(4)] == [None, None, None, used_up]
    assert (boss.turns, boss.child_turns, child.turns) == (1, 3, 3)
    assert reached(boss) == "the limit of 4 turns was reached"


def test_default_limit_of_turns_is_separate_for_each_worker() -> None:
    boss = Budget(Limits(), None)
    for _ in range(3):
        child = Budget(Limits(max_turns=30), None, parent=boss)
        assert [reached(child) for _ in range(31)] == [None] * 30 + [
            "the limit of 30 turns was reached"
        ]
    assert reached(boss) is None


def test_deadline_is_the_shortest_time_in_the_chain() -> None:
    clock = Clock()
    boss = Budget(Limits(max_time=60), None, clock=clock, worker="boss")
    clock.now += 50
    child = Budget(Limits(max_time=30), None, boss, clock)
    grandchild = Budget(Limits(), None, child, clock)
    assert [each.seconds_left() for each in (boss, child, grandchild)] == [10, 10, 10]
    assert (
        str(grandchild.out_of_time()) == "the limit of 60 seconds of the worker 'boss' was reached"
    )
    clock.now += 10
    assert reached(grandchild) == "the limit of 60 seconds of the worker 'boss' was reached"


def test_child_that_exceeds_a_limit_in_its_last_turn_may_answer() -> None:
    child = Budget(Limits(max_tokens=10), None, parent=Budget(Limits(), None))
    child.spend(Usage(11))
    child.check_last_turn()
    assert reached(child) == "the limit of 10 tokens was reached"


def test_one_unknown_price_makes_the_cost_unknown_but_counts_the_rest() -> None:
    boss = Budget(Limits(max_cost=1), DOLLAR)
    child = Budget(Limits(), None, parent=boss)
    assert boss.cost is None
    child.spend(Usage(1))
    assert (boss.cost, child.cost) == (None, None)
    boss.spend(Usage(1_000_000))
    assert reached(boss) == "the limit of $1.00 was reached"


usages = st.builds(Usage, *[st.integers(min_value=0, max_value=10**7)] * 4)
prices = st.none() | st.builds(StatedPrice, *[st.floats(min_value=0, max_value=100)] * 2)
trees = st.lists(
    st.tuples(st.integers(min_value=0), prices, st.lists(usages, max_size=3)),
    min_size=1,
    max_size=8,
)


@given(trees)
def test_usage_of_a_tree_is_added_up(
    tree: list[tuple[int, StatedPrice | None, list[Usage]]],
) -> None:
    budgets: list[Budget] = []
    for above, price, _ in tree:
        budgets.append(
            Budget(Limits(), price, parent=budgets[above % len(budgets)] if budgets else None)
        )
    spent: list[tuple[Budget, Usage]] = []
    for budget, (_, _, turns) in zip(budgets, tree, strict=True):
        for usage in turns:
            budget.spend(usage)
            spent.append((budget, usage))
    for budget in budgets:
        below = [(owner, usage) for owner, usage in spent if budget in owner.chain]
        assert budget.usage == sum((usage for _, usage in below), Usage())
        assert min(astuple(budget.usage)) >= 0
        known = [owner.price.cost(usage) for owner, usage in below if owner.price]
        if not below or len(known) < len(below):
            assert budget.cost is None
        else:
            assert budget.cost == pytest.approx(sum(known))
