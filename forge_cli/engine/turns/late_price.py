"""The price of a model that is looked up only when it is needed: to load the table of prices takes a while."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from forge_cli.core.messages import Usage
from forge_cli.engine.turns.limits import UNLISTED, Price
from forge_cli.files.settings import ModelOptions
from forge_cli.files.worker import Limits


class LatePrice(Struct, frozen=True, dict=True):
    """A price that is looked up when the first answer has come: to load the table takes a while."""

    model_name: str
    options: ModelOptions

    @cached_property
    def price(self) -> Price | None:
        if self._provider in UNLISTED and self.options.price is None:
            return None
        from forge_cli.engine.turns.prices import price_of

        return price_of(self.model_name, self.options)

    @property
    def _provider(self) -> str:
        return self.model_name.partition(":")[0]

    def cost(self, usage: Usage) -> float | None:
        return self.price.cost(usage) if self.price else None

    def require(self, stated: Sequence[Limits], settings: Limits) -> None:
        """Refuse ``max_cost`` where the price is unknown; what a user limits everywhere means no scripted model."""
        limits = stated if self._provider in UNLISTED else [*stated, settings]
        if any(each.max_cost is not None for each in limits):
            from forge_cli.engine.turns.prices import require_price

            require_price(self.model_name, self.price, *limits)
