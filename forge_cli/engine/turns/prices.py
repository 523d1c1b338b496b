"""The price of a model: from the user's config, else from the table of genai-prices."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.messages import Usage
from forge_cli.engine.turns.limits import UNLISTED, Price
from forge_cli.files.settings import DayLimits, ModelOptions
from forge_cli.files.worker import Limits

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

MILLION = 1_000_000
_THIS_MACHINE = re.compile(r"localhost|127\.[\d.]+|::1")


class StatedPrice(Struct, frozen=True):
    """Dollars per million tokens from a config; a cache without a price costs what input costs."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def rates(self) -> tuple[float, float]:
        return self.input, self.output

    def cost(self, usage: Usage) -> float:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        total = (
            self.input * usage.input_tokens
            + self.output * usage.output_tokens
            + read * usage.cache_read_tokens
            + write * usage.cache_write_tokens
        )
        return total / MILLION


class ListedPrice(Struct, frozen=True):
    """A price in the table of genai-prices, which is never downloaded.

    If the user set another ``address`` for the provider, the price is that of the server there.
    """

    provider: str
    model: str
    address: str | None = None

    def cost(self, usage: Usage) -> float:
        return float(self.calculate(usage).total_price)

    def known(self) -> bool:
        """Return True if the table has a price for the model."""
        return self.rates() is not None

    def rates(self) -> tuple[float, float] | None:
        """Return dollars per million tokens in and out, without surcharges for long requests."""
        return _find_rates(self)

    def calculate(self, usage: Usage) -> PriceCalculation:
        import genai_prices

        tokens = genai_prices.Usage(
            # In this library, input includes what was read from and written to the cache.
            input_tokens=usage.sent_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        if self.address:
            return genai_prices.calc_price(tokens, self.model, provider_api_url=self.address)
        return genai_prices.calc_price(tokens, self.model, provider_id=self.provider)


@cache
def _find_rates(listed: ListedPrice) -> tuple[float, float] | None:
    try:
        price = listed.calculate(Usage(1, 1)).model_price
    except (LookupError, ValueError):
        return None
    rates: list[Any] = []
    for rate in (price.input_mtok, price.output_mtok):
        # A price with tiers is an object, whose base is the price of a short request.
        rates.append(getattr(rate, "base", rate))
    if None in rates:
        return None
    return float(rates[0]), float(rates[1])


def price_of(
    model_name: str, options: ModelOptions, environ: Mapping[str, str] = os.environ
) -> StatedPrice | ListedPrice | None:
    """Return the price of ``PROVIDER:MODEL``, or None; the table takes a while to load."""
    if stated := options.price:
        return StatedPrice(stated.input, stated.output, stated.cache_read, stated.cache_write)
    provider, _, model = model_name.partition(":")
    if not model or provider in UNLISTED:
        return None
    address = environ.get(f"{provider.upper()}_BASE_URL", "").strip() or None
    if address and _is_here(address):
        return None
    listed = ListedPrice(provider, model, address)
    return listed if listed.known() else None


def _is_here(address: str) -> bool:
    """Return True for a server on this machine, which no table lists."""
    try:
        return _THIS_MACHINE.fullmatch(urlsplit(address).hostname or "") is not None
    except ValueError:
        return False


def require_price(model_name: str, price: Price | None, *limits: Limits) -> None:
    """Raise WorkerError for a limit of cost if the price of the model is unknown."""
    capped = [each for each in limits if each.max_cost is not None]
    if capped and price is None:
        marks = list(filter(None, (each.where("max_cost") for each in capped)))
        raise _no_price(model_name, "max_cost", marks[0] if marks else None)


def require_day_price(model_name: str, price: Price | None, limits: DayLimits) -> None:
    """Raise WorkerError for the cost of a day if the price of the model is unknown."""
    if price is None:
        raise _no_price(model_name, "limits.per_day.cost", limits.where("cost"))


def _no_price(model_name: str, limit: str, where: Mark | None) -> WorkerError:
    example = f'models: {{"{model_name}": {{price: {{input: 1.0, output: 5.0}}}}}}'
    return WorkerError(
        where,
        f"the price of {model_name} is unknown, so {limit} cannot be enforced",
        hint=f"remove {limit}, or set the price of a million tokens in config.yaml: {example}",
    )
