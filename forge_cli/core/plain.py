"""Args of plain types: read by their types and bounds alone, where pydantic could not find more in them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Self, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen

from forge_cli.core.values import dataclass
from forge_cli.core.wire import JsonObject, clean_text

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

REQUIRED = object()
_TYPES = frozenset({str, int, float, bool, NoneType})
_WIDEST = 2**63
_BOUNDS: dict[type, tuple[str, Callable[[Any, Any], bool]]] = {
    Ge: ("ge", operator.ge),
    Gt: ("gt", operator.gt),
    Le: ("le", operator.le),
    Lt: ("lt", operator.lt),
    MinLen: ("min_length", lambda value, least: len(value) >= least),
    MaxLen: ("max_length", lambda value, most: len(value) <= most),
}


@dataclass(frozen=True)
class PlainField:
    """One arg: what it is called, the parameter that takes it, and all that makes a value of it valid."""

    name: str
    parameter: str
    types: frozenset[type]
    bounds: tuple[tuple[Callable[[Any, Any], bool], Any], ...]
    default: Any = REQUIRED

    def admits(self, value: Any) -> bool:
        if type(value) not in self.types or not _is_carried(value):
            return False
        if value is None or not self.bounds:
            return True
        return all(fits(value, bound) for fits, bound in self.bounds)


@dataclass(frozen=True)
class PlainFields:
    """The fields of a model that has plain ones only."""

    fields: tuple[PlainField, ...]

    @classmethod
    def of(cls, model: type[BaseModel], parameters: Mapping[str, str]) -> Self | None:
        """Those of a model made from a signature; None where one of them takes more than types and bounds."""
        found = tuple(_plain_field(info, parameters[name]) for name, info in model.model_fields.items())
        fields = tuple(field for field in found if field is not None)
        return cls(fields) if len(fields) == len(found) else None

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


def _plain_field(info: FieldInfo, parameter: str) -> PlainField | None:
    types, name = _plain_types(info.annotation), info.validation_alias
    bounds = tuple(_bound(each) for each in info.metadata if not getattr(each, "describes_only", False))
    if types is None or None in bounds or not isinstance(name, str) or info.exclude or info.default_factory:
        return None
    known = tuple(bound for bound in bounds if bound is not None)
    if info.is_required():
        return PlainField(name, parameter, types, known)
    field = PlainField(name, parameter, types, known, info.default)
    return field if field.admits(info.default) else None


def _plain_types(hint: Any) -> frozenset[type] | None:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    plain = len({*kinds} - {NoneType}) == 1 and all(isinstance(kind, type) and kind in _TYPES for kind in kinds)
    return frozenset(kinds) if plain else None


def _bound(metadata: Any) -> tuple[Callable[[Any, Any], bool], Any] | None:
    if type(metadata) not in _BOUNDS:
        return None
    attribute, fits = _BOUNDS[type(metadata)]
    return fits, getattr(metadata, attribute)


def _is_carried(value: Any) -> bool:
    """Can JSON carry it, as far as that is sure without looking closely?"""
    if isinstance(value, str):
        return value.isascii() or clean_text(value) is value
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or -_WIDEST < value < _WIDEST
