"""Args of plain types: read by their types and bounds alone, where pydantic could not find more in them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from types import NoneType
from typing import Any, Self

from forge_cli.core.values import dataclass
from forge_cli.core.wire import JsonObject, clean_text

REQUIRED = object()
_TYPES: dict[str, type] = {each.__name__: each for each in (str, int, float, bool, NoneType)}
_WIDEST = 2**63
_FITS: dict[str, Callable[[Any, Any], bool]] = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
    "min_length": lambda value, least: len(value) >= least,
    "max_length": lambda value, most: len(value) <= most,
}


@dataclass(frozen=True)
class PlainField:
    """One arg: what it is called, the parameter that takes it, and all that makes a value of it valid."""

    name: str
    parameter: str
    types: frozenset[type]
    bounds: tuple[tuple[str, Any], ...]
    """By their names in ``annotated_types``."""
    default: Any = REQUIRED

    def admits(self, value: Any) -> bool:
        if type(value) not in self.types or not _is_carried(value):
            return False
        if value is None or not self.bounds:
            return True
        return all(_FITS[name](value, bound) for name, bound in self.bounds)


@dataclass(frozen=True)
class PlainFields:
    """The fields of a model that has plain ones only."""

    fields: tuple[PlainField, ...]

    def facts(self) -> list[JsonObject]:
        """The same as JSON, for ``from_facts``."""
        return [
            {
                "name": field.name,
                "parameter": field.parameter,
                "types": sorted(each.__name__ for each in field.types),
                "bounds": field.bounds,
                **({} if field.default is REQUIRED else {"default": field.default}),
            }
            for field in self.fields
        ]

    @classmethod
    def from_facts(cls, facts: Iterable[JsonObject]) -> Self:
        return cls(
            tuple(
                PlainField(
                    fact["name"],
                    fact["parameter"],
                    frozenset(_TYPES[name] for name in fact["types"]),
                    tuple((name, bound) for name, bound in fact["bounds"]),
                    fact.get("default", REQUIRED),
                )
                for fact in facts
            )
        )

    def read(self, args: Any) -> JsonObject | None:
        """Valid args in the order of the fields, with defaults; None for what has to be looked at more closely."""
        if type(args) is not dict:
            return None
        found: JsonObject = {}
        given = 0
        for field in self.fields:
            value = args.get(field.name, REQUIRED)
            if value is not REQUIRED:
                given += 1
                if not field.admits(value):
                    return None
                found[field.name] = value
            elif field.default is REQUIRED:
                return None
            else:
                found[field.name] = field.default
        return found if given == len(args) else None

    def keywords(self, args: Any) -> dict[str, Any] | None:
        """The same by the names of the parameters."""
        found = self.read(args)
        return None if found is None else {field.parameter: found[field.name] for field in self.fields}


def _is_carried(value: Any) -> bool:
    """Can JSON carry it, as far as that is sure without looking closely?"""
    if isinstance(value, str):
        return value.isascii() or clean_text(value) is value
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or -_WIDEST < value < _WIDEST
