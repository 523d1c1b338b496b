"""Frozen values as JSON and back: camelCase keys, and absent things left out."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
    ValuesView,
)
from contextlib import suppress
from enum import Enum
from functools import cache, partial, reduce
from itertools import chain
from operator import or_
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, TypeVar, Union, cast, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from forge_cli.core.errors import Mark

T = TypeVar("T")
JsonObject = dict[str, Any]

NESTING = 100
"""Levels of nesting of a value; a schema, which describes each level by two, may have twice as many."""


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


def inner_values(value: Any) -> Iterable[Any]:
    """Return the values directly within a JSON object or array; a scalar has none."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class Unreadable(ValueError):
    """Data that no value of its class could have written; the sentence begins with the place in it."""


def wire(value: Any) -> dict[str, Any]:
    """A struct as a JSON object; a field that may be absent (its default is None) is left out when it is."""
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for name, key, optional in _written(kind):
        item = getattr(value, name)
        if item is not None or not optional:
            found[key] = _field(item)
    return found


class OnWire(Struct, frozen=True):
    """A value that stands in events as a JSON object."""

    off_wire: ClassVar[tuple[str, ...]] = ()
    """The fields that no event has."""

    def wire(self) -> JsonObject:
        """As a JSON object."""
        return wire(self)


def camel_keys(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its keys in camelCase, as JSON has them everywhere."""
    return {camel_case(key): value for key, value in found.items()}


def own_reader(kind: Any, function: Callable[[Any], Any]) -> None:
    """Say how a type is read whose form on the wire is its own; the function raises Unreadable."""
    OWN_READERS[kind] = function


OWN_READERS: dict[Any, Callable[[Any], Any]] = {}


@cache
def _written(kind: type) -> tuple[tuple[str, str, bool], ...]:
    """Of each field: its name, its key, and whether it is left out when it is None."""
    return tuple((field.name, _key(field), field.default is None) for field in wire_fields(kind))


def wire_fields(kind: Any) -> list[FieldInfo]:
    """The fields that stand on the wire; those in ``off_wire`` do not."""
    return [field for field in fields(kind) if field.name not in getattr(kind, "off_wire", ())]


def wire_keys(kind: Any) -> tuple[str, ...]:
    """Return the keys of a struct as a JSON object."""
    return tuple(_key(field) for field in wire_fields(kind))


def _key(field: FieldInfo) -> str:
    return field.encode_name if field.encode_name != field.name else camel_case(field.name)


def _field(item: Any) -> Any:
    if isinstance(item, str):
        return item if item.isascii() else clean_text(item)
    if item is None or type(item) in (int, bool):
        return item
    if hasattr(item, "wire"):
        return item.wire()
    if isinstance(item, Mark):
        return str(item)
    if isinstance(item, list | tuple):
        return [_field(entry) for entry in item]
    return jsonable(item)


def jsonable(value: Any, depth: int = 0) -> Any:
    """Any Python value as plain JSON data: odd things become their text; a ValueError for what never ends."""
    if isinstance(value, Enum):
        return jsonable(value.value, depth)
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return decode_text(bytes(value))
    if depth > 2 * NESTING:
        raise ValueError("it is nested too deeply, or holds itself")
    depth += 1
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - the first is much faster
        return {clean_text(str(key)): jsonable(item, depth) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((jsonable(item, depth) for item in value), key=repr)
    if isinstance(value, Sequence | ValuesView):
        return [jsonable(item, depth) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: jsonable(getattr(value, field.name), depth)
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Struct):
        return {name: jsonable(getattr(value, name), depth) for name in value.__struct_fields__}
    if hasattr(value, "model_dump"):
        return jsonable(value.model_dump(), depth)
    if isinstance(value, Iterator | AsyncIterator):
        raise ValueError(
            f"a value of type {type(value).__name__} may never end; return a list of its items"
        )
    return own_text(value)


def plain_json(value: Any, levels: int = NESTING) -> Any:
    """A copy in JSON's own types; a ValueError says why JSON cannot carry it, or that it is too deep."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds a lone surrogate, which is not text") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it is not plain JSON: {error}") from None
    plain = json.loads(text)
    if is_too_deep(plain, levels):
        raise ValueError("it is nested too deeply")
    return plain


def is_too_deep(value: Any, levels: int = NESTING) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not level:
            return False
        inside = chain.from_iterable(map(inner_values, level))
        level = [item for item in inside if isinstance(item, dict | list)]
    return bool(level)


def decode_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[{len(data)} bytes that are not UTF-8 text]"


def error_text(error: BaseException) -> str:
    """An error of third-party code in one sentence: its type and what it says."""
    with suppress(Exception):  # third-party code: what an exception says is a method of its class
        if message := own_text(error).strip():
            return f"{type(error).__name__}: {message}"
    return type(error).__name__


def own_text(value: Any) -> str:
    """The text that an object gives of itself, without its address and the name that forge gave its module."""
    return clean_text(re.sub(r" at 0x[0-9a-f]+|\bforge_local_[0-9a-f]+\.", "", str(value)))


def read(kind: type[T], data: Any) -> T:
    """A struct as ``wire`` wrote it; keys that are not known come from a newer forge."""
    made: Any = kind
    return cast(T, reader(made)(data))


@cache
def reader(kind: Any) -> Callable[[Any], Any]:
    """How a value of a type is read; made when the type is first met."""
    if kind in OWN_READERS:
        return OWN_READERS[kind]
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Literal:
        return _read_text
    if origin in (Union, UnionType) and NoneType in inner:
        return partial(
            _read_optional, reader(reduce(or_, [each for each in inner if each is not NoneType]))
        )
    if origin is tuple:
        return partial(_read_items, reader(inner[0]))
    if origin in (dict, Mapping):
        return partial(_read_mapping, reader(inner[1]))
    if issubclass(kind, Struct):
        return partial(_read_object, kind)
    raise TypeError(f"{kind} has no form on the wire")


@cache
def _expected(kind: type) -> tuple[tuple[str, str, Callable[[Any], Any], Any], ...]:
    """Of each field: its name, its key, its reader, and what it is if it is missing."""
    return tuple(
        (field.name, _key(field), reader(field.type), _absent(field)) for field in wire_fields(kind)
    )


def _absent(field: FieldInfo) -> Any:
    """``...`` for what must not be missing, such as a field with a key of its own, which is always written."""
    if field.encode_name != field.name:
        return ...
    if field.default is not NODEFAULT:
        return field.default
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return None if NoneType in get_args(field.type) else ...


def _read_object(kind: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise Unreadable("not an object")
    given: dict[str, Any] = {}
    key = ""
    try:
        for name, key, read_item, absent in _expected(kind):
            item = data.get(key, absent)
            if item is ...:
                raise Unreadable("missing")
            given[name] = item if item is absent else read_item(item)
    except Unreadable as problem:
        raise Unreadable(f"{key}{'.' if ': ' in str(problem) else ': '}{problem}") from None
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
