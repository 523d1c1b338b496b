"""Frozen values as JSON: camelCase keys, absent values left out, and reading them back.

msgspec cannot decode these values: results are unions of structs without a tag, a ``Literal`` from
a newer forge has to stay readable, and several values have a form of their own. So ``read`` is a
small decoder, whose problems begin with the place of the invalid value.
"""

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
"""The most levels of nesting; a schema, which needs two levels for one, may have twice as many."""


def camel_case(name: str) -> str:
    """Return ``snake_case`` as ``camelCase``."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def snake_case(name: str) -> str:
    """Return ``camelCase`` as ``snake_case``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def clean_text(text: str) -> str:
    """Return text that UTF-8 can encode; lone surrogates become visible escapes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def inner_values(value: Any) -> Iterable[Any]:
    """Return the values directly inside a JSON object or array; a scalar has none."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class Unreadable(ValueError):
    """Data that does not fit its class; the message begins with the place of the problem."""


def wire(value: Any) -> dict[str, Any]:
    """Return a struct as a JSON object, without fields that are None by default and None now."""
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for name, key, is_optional in _written(kind):
        item = getattr(value, name)
        if item is not None or not is_optional:
            found[key] = _field(item)
    return found


class OnWire(Struct, frozen=True):
    """A value that is a JSON object in events."""

    off_wire: ClassVar[tuple[str, ...]] = ()
    """Fields that are not written."""

    def wire(self) -> JsonObject:
        """Return the value as a JSON object."""
        return wire(self)


def camel_keys(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with its keys in camelCase, as everywhere in JSON."""
    return {camel_case(key): value for key, value in found.items()}


def own_reader(kind: Any, function: Callable[[Any], Any]) -> None:
    """Register how a type with a special JSON form is read; the function raises Unreadable."""
    OWN_READERS[kind] = function


OWN_READERS: dict[Any, Callable[[Any], Any]] = {}


@cache
def _written(kind: type) -> tuple[tuple[str, str, bool], ...]:
    """Return name, key and optionality of each field; an optional field is None by default."""
    return tuple((field.name, _key(field), field.default is None) for field in wire_fields(kind))


def wire_fields(kind: Any) -> list[FieldInfo]:
    """Return the fields that are written to JSON."""
    return [field for field in fields(kind) if field.name not in getattr(kind, "off_wire", ())]


def wire_keys(kind: Any) -> tuple[str, ...]:
    """Return the JSON keys of a struct."""
    return tuple(_key(field) for field in wire_fields(kind))


def _key(field: FieldInfo) -> str:
    return field.encode_name if field.encode_name != field.name else camel_case(field.name)


def _field(item: Any) -> Any:
    # Strings and integers first: almost every field is one, and a record has many lines.
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
    """Return any Python value as JSON data; unknown objects become their text.

    Raise ValueError for a value that never ends.
    """
    if isinstance(value, Enum):
        return jsonable(value.value, depth)
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        # JSON has no infinity; ``_read_float`` reads the name back.
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return decode_text(bytes(value))
    if depth > 2 * NESTING:
        raise ValueError("it is nested too deeply, or contains itself")
    depth += 1
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - the first is much faster
        return {clean_text(str(key)): jsonable(item, depth) for key, item in value.items()}
    if isinstance(value, Set):
        # Sets have no order; sorting makes the text of equal values equal.
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
    """Return a copy in JSON's own types; raise ValueError if JSON cannot represent the value."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it contains a lone surrogate, which is not text") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"it is not plain JSON: {error}") from None
    plain = json.loads(text)
    if is_too_deep(plain, levels):
        raise ValueError("it is nested too deeply")
    return plain


def is_too_deep(value: Any, levels: int = NESTING) -> bool:
    """Return True if JSON data has more levels of nesting than ``levels``."""
    # Level by level, because a recursive check would itself fail on a deep value.
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not level:
            return False
        inside = chain.from_iterable(map(inner_values, level))
        level = [item for item in inside if isinstance(item, dict | list)]
    return bool(level)


def decode_text(data: bytes) -> str:
    """Return the text of UTF-8 data; for other data a note about its size."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"[{len(data)} bytes that are not UTF-8 text]"


def error_text(error: BaseException) -> str:
    """Return the type and message of an exception in one sentence."""
    with suppress(Exception):  # third-party code: str() of an exception calls a method of its class
        if message := own_text(error).strip():
            return f"{type(error).__name__}: {message}"
    return type(error).__name__


def own_text(value: Any) -> str:
    """Return the text of an object, without its address and forge's internal module name."""
    return clean_text(re.sub(r" at 0x[0-9a-f]+|\bforge_local_[0-9a-f]+\.", "", str(value)))


def read(kind: type[T], data: Any) -> T:
    """Read a struct from the JSON that ``wire`` writes; unknown keys are ignored."""
    made: Any = kind
    return cast(T, reader(made)(data))


@cache
def reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that reads a type, made when the type is first used."""
    if kind in OWN_READERS:
        return OWN_READERS[kind]
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin = get_origin(kind)
    inner = get_args(kind)
    if origin is Literal:
        # A newer forge may know more words, so any text is accepted.
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
    """Return name, key, reader and default of each field."""
    return tuple(
        (field.name, _key(field), reader(field.type), _absent(field)) for field in wire_fields(kind)
    )


def _absent(field: FieldInfo) -> Any:
    """Return the default of a field; ``...`` if it is required.

    A field with its own key is always written, so it is required even if it has a default.
    """
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
            # A default is not in the form of the wire, so it must not be read.
            if item is not absent:
                item = read_item(item)
            given[name] = item
    except Unreadable as problem:
        # A problem inside of the value begins with its own place already.
        joint = "." if ": " in str(problem) else ": "
        raise Unreadable(f"{key}{joint}{problem}") from None
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
    # Most mappings are arbitrary JSON, which needs no copy.
    if inner is _read_any:
        return data
    return {key: inner(item) for key, item in data.items()}


def _read_any(data: Any) -> Any:
    return data


def _scalar(problem: str, *kinds: type) -> Callable[[Any], Any]:
    """Return a reader that accepts these types."""

    def check(data: Any) -> Any:
        # bool is an int in Python, but not in JSON.
        if not isinstance(data, kinds) or (isinstance(data, bool) and bool not in kinds):
            raise Unreadable(problem)
        return data

    return check


_read_text = _scalar("not a text", str)
_read_number = _scalar("not a number", int, float)


def _read_float(data: Any) -> Any:
    """Read a number; infinity, which JSON does not have, is written as its name."""
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
