"""Values read back from JSON, each class as ``wire`` wrote it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache, partial, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from forge_cli.core.errors import Mark
from forge_cli.core.wire import OWN_READERS, Unreadable, camel_case, plain_type, wire_fields

T = TypeVar("T")
_PLAIN = {str: str, int: int, bool: bool}


def read(kind: type[T], data: Any) -> T:
    """A value of a frozen dataclass as ``wire`` wrote it; keys that are not known come from a newer forge."""
    made: Any = kind
    return cast(T, reader(made)(data))


def is_sound(value: Any) -> bool:
    """Whether every field has the plain type that it is read as, so that the value can be read back for sure."""
    held: dict[str, Any] = vars(value)
    kind: Any = type(value)
    for name, _, plain, _, absent in _expected(kind):
        item = held[name]
        if item is not absent and (plain is None or type(item) is not plain):
            return False
    return True


@cache
def reader(kind: Any) -> Callable[[Any], Any]:
    """How a value of a type is read; made when the type is first met."""
    if kind in OWN_READERS:
        return OWN_READERS[kind]
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _read_text
    if origin in (Union, UnionType) and NoneType in inner:
        return partial(_read_optional, reader(reduce(or_, [each for each in inner if each is not NoneType])))
    if origin is tuple:
        return partial(_read_items, reader(inner[0]))
    if origin in (dict, Mapping):
        return partial(_read_mapping, reader(inner[1]))
    if dataclasses.is_dataclass(kind):
        return partial(_read_object, kind)
    raise TypeError(f"{kind} has no form on the wire")


@cache
def _expected(kind: type) -> tuple[tuple[str, str, Any, Callable[[Any], Any], Any], ...]:
    """Of each field: its name, its key, the type that needs no reading, its reader, and what it is if it is missing."""
    return tuple(
        (field.name, camel_case(field.name), _PLAIN.get(plain_type(hint)), reader(hint), _absent(field, hint))
        for field, hint in wire_fields(kind)
    )


def _absent(field: dataclasses.Field[Any], hint: Any) -> Any:
    """``...`` for what must not be missing."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if NoneType in get_args(hint) else ...


def _read_object(kind: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise Unreadable("not an object")
    given: dict[str, Any] = {}
    key = ""
    try:
        for name, key, plain, read_item, absent in _expected(kind):
            item = data.get(key, absent)
            if item is ...:
                raise Unreadable("missing")
            given[name] = item if type(item) is plain or item is absent else read_item(item)
    except Unreadable as problem:
        raise Unreadable(f"{key}{'.' if ': ' in str(problem) else ': '}{problem}") from None
    if not hasattr(kind, "__post_init__"):
        # As __init__ would, at a quarter of its cost for a frozen class: a long session has many thousand values.
        made = object.__new__(kind)
        made.__dict__.update(given)
        return made
    try:
        return kind(**given)
    except ValueError as problem:
        raise Unreadable(str(problem)) from None


def _read_optional(inner: Callable[[Any], Any], data: Any) -> Any:
    return None if data is None else inner(data)


def _read_items(inner: Callable[[Any], Any], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise Unreadable("not a list")
    return tuple(map(inner, data))


def _read_mapping(inner: Callable[[Any], Any], data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise Unreadable("not an object")
    return data if inner is _read_any else {key: inner(item) for key, item in data.items()}


def _read_any(data: Any) -> Any:
    return data


def _read_text(data: Any) -> str:
    if not isinstance(data, str):
        raise Unreadable("not a text")
    return data


def _read_int(data: Any) -> int:
    if not isinstance(data, int) or isinstance(data, bool):
        raise Unreadable("not a whole number")
    return data


def _read_number(data: Any) -> float:
    """JSON has no infinity, so that is written as its name."""
    if data in ("inf", "-inf", "nan"):
        return float(data)
    if not isinstance(data, int | float) or isinstance(data, bool):
        raise Unreadable("not a number")
    return data


def _read_bool(data: Any) -> bool:
    if not isinstance(data, bool):
        raise Unreadable("not true or false")
    return data


def _read_mark(data: Any) -> Mark:
    match _read_text(data).rsplit(":", 2):
        case [file, line, column] if line.isdecimal() and column.isdecimal():
            return Mark(file, int(line), int(column))
        case _:
            raise Unreadable("not a place in a file")


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    Any: _read_any,
    str: _read_text,
    int: _read_int,
    float: _read_number,
    bool: _read_bool,
    Mark: _read_mark,
}
