"""Frozen values as JSON and back: camelCase keys, and absent things left out."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum
from functools import cache, partial, reduce
from operator import or_
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from forge_cli.core.errors import Mark

T = TypeVar("T")
JsonObject = dict[str, Any]

MAX_DEPTH = 60
NESTING = 100
"""Levels of nesting of a value; a schema, which describes each level by two, may have twice as many."""
MAX_BITS = 14_000
"""Python refuses to write larger integers as decimal digits."""


def camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def clean_text(text: str) -> str:
    """Text that UTF-8 can carry: lone surrogates become visible escapes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


class Unreadable(ValueError):
    """Data that no value of its class could have written; the sentence begins with the place in it."""


def wire(value: Any) -> dict[str, Any]:
    """A frozen dataclass as a JSON object; a field that may be absent (its default is None) is left out when it is."""
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for name, key, write, optional in _written(kind):
        item = getattr(value, name)
        if item is not None:
            item = write(item)
        if item is not None or not optional:
            found[key] = item
    return found


def both_spellings(found: Mapping[str, Any]) -> dict[str, Any]:
    """An object with its keys in camelCase beside those of before, which go with the next version."""
    return {**found, **{camel_case(key): value for key, value in found.items()}}


def own_reader(kind: Any, function: Callable[[Any], Any]) -> None:
    """Say how a type is read whose form on the wire is its own; the function raises Unreadable."""
    OWN_READERS[kind] = function


OWN_READERS: dict[Any, Callable[[Any], Any]] = {}


@cache
def _written(kind: type) -> tuple[tuple[str, str, Callable[[Any], Any], bool], ...]:
    """Of each field: its name, its key, how it is written, and whether it is left out when it is None."""
    return tuple(
        (field.name, camel_case(field.name), _WRITERS.get(plain_type(hint), _field), field.default is None)
        for field, hint in wire_fields(kind)
    )


def wire_fields(kind: type) -> list[tuple[dataclasses.Field[Any], Any]]:
    """The fields that stand on the wire, with their types."""
    hints = get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind) if "wire" not in field.metadata]


def plain_type(hint: Any) -> Any:
    """``str`` for ``str | None`` and for a Literal of strings."""
    inner = [each for each in get_args(hint) if each is not NoneType]
    if get_origin(hint) is Literal:
        return str
    return plain_type(inner[0]) if get_origin(hint) in (Union, UnionType) and len(inner) == 1 else hint


def _write_text(item: Any) -> Any:
    """Write what a field of text holds as text, also where third-party code put something else into it."""
    if type(item) is str:
        return clean_text(item)
    plain = jsonable(item)
    return plain if plain is None or isinstance(plain, str) else clean_text(_safe_text(item))


def _write_int(item: Any) -> Any:
    return item if type(item) is int and item.bit_length() <= MAX_BITS else _field(item)


def _write_number(item: Any) -> Any:
    return jsonable(item) if isinstance(item, int | float) else None


_WRITERS: dict[Any, Callable[[Any], Any]] = {
    str: _write_text,
    int: _write_int,
    float: _write_number,
    bool: bool,
}


def _field(item: Any) -> Any:
    if type(item) in _ATOMS:
        return _plain(item, ())
    if hasattr(item, "wire"):
        return item.wire()
    if isinstance(item, Mark):
        return str(item)
    if isinstance(item, list | tuple):
        return [_field(entry) for entry in item]
    return jsonable(item)


def jsonable(value: Any) -> Any:
    """Any Python value as plain JSON data: cycles are cut, odd things become their text, nothing ever raises."""
    return _plain(value, ())


_ATOMS = frozenset({str, int, float, bool})


def _plain(value: Any, enclosing: tuple[int, ...]) -> Any:
    kind = type(value)
    if kind is str:
        return clean_text(value)
    if value is None or kind is bool:
        return value
    if kind is dict or kind is list:
        return _enclosed(value, enclosing)
    if isinstance(value, Enum):
        return _plain(value.value, enclosing)
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_BITS else f"[an integer of {value.bit_length()} bits]"
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return decode_text(bytes(value))
    return _enclosed(value, enclosing)


def _enclosed(value: Any, enclosing: tuple[int, ...]) -> Any:
    if id(value) in enclosing:
        return "[the same value again]"
    if len(enclosing) >= MAX_DEPTH:
        return "[nested too deep]"
    return _nested(value, (*enclosing, id(value)))


def _nested(value: Any, enclosing: tuple[int, ...]) -> Any:
    if type(value) is list:
        return [_plain(item, enclosing) for item in value]
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - the first is much faster
        return {
            clean_text(key if isinstance(key, str) else _safe_text(key)): _plain(item, enclosing)
            for key, item in value.items()
        }
    if isinstance(value, Set):
        return sorted((_plain(item, enclosing) for item in value), key=repr)
    if isinstance(value, Sequence):
        return [_plain(item, enclosing) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), enclosing) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(), enclosing)
    return clean_text(str(value) if isinstance(value, PurePath) else _safe_text(value))


def decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[{len(data)} bytes that are not UTF-8 text]"


def error_text(error: BaseException) -> str:
    """An error of third-party code in one sentence: its type and what it says."""
    message = clean_text(_safe_text(error)).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _safe_text(value: Any) -> str:
    """The text that an object gives of itself; a ``__str__`` is third-party code and may fail."""
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(value))
    except Exception:
        return f"[a {type(value).__name__} that cannot be shown]"


_UNREAD = {str: str, int: int, bool: bool}


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
        (field.name, camel_case(field.name), _UNREAD.get(plain_type(hint)), reader(hint), _absent(field, hint))
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


def _scalar(problem: str, *kinds: type) -> Callable[[Any], Any]:
    """Takes what is of one of these types; Python counts true among the numbers, JSON does not."""

    def check(data: Any) -> Any:
        if not isinstance(data, kinds) or (isinstance(data, bool) and bool not in kinds):
            raise Unreadable(problem)
        return data

    return check


_read_text = _scalar("not a text", str)
_read_number = _scalar("not a number", int, float)


def _read_float(data: Any) -> Any:
    """JSON has no infinity, so that is written as its name."""
    return float(data) if data in ("inf", "-inf", "nan") else _read_number(data)


def _read_mark(data: Any) -> Mark:
    match _read_text(data).rsplit(":", 2):
        case [file, line, column] if line.isdecimal() and column.isdecimal():
            return Mark(file, int(line), int(column))
        case _:
            raise Unreadable("not a place in a file")


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    Any: _read_any,
    str: _read_text,
    int: _scalar("not a whole number", int),
    float: _read_float,
    bool: _scalar("not true or false", bool),
    Mark: _read_mark,
}
