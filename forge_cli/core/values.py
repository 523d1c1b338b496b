"""``dataclass`` as in the standard library, but frozen ones share their methods, so that programs start faster.

The standard library compiles six methods for every frozen class at each start. Here only ``__init__`` is compiled: it
assigns each field once, and what is assigned later is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]


class _Frozen:
    """The methods that frozen dataclasses share; each class gets them as its own."""

    _assignable: frozenset[str]
    """The fields of the class."""

    @recursive_repr()
    def __repr__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in _fields(self, "repr").items()]
        return f"{type(self).__qualname__}({', '.join(fields)})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _fields(self, "compare") == _fields(other, "compare")

    def __hash__(self) -> int:
        return hash(tuple(_fields(self, "hash").values()))

    def __setattr__(self, name: str, value: object) -> None:
        held = self.__dict__
        if name in self._assignable and name not in held:  # every field of every value passes here, so it is short
            held[name] = value
        elif _is_extra(self, name):
            object.__setattr__(self, name, value)
        else:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        if not _is_extra(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)


_SHARED = {name: vars(_Frozen)[name] for name in ("__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")}


def _fields(value: Any, use: str) -> dict[str, Any]:
    """The fields that have a part in ``repr``, ``compare`` or ``hash``."""
    cls: Any = type(value)
    return {name: getattr(value, name) for name in _names(cls, use)}


def _is_extra(value: Any, name: str) -> bool:
    """Whether a name belongs to a subclass that is not a dataclass itself."""
    cls: Any = type(value)
    return "__dataclass_params__" not in vars(cls) and name not in _names(cls, "name")


@cache
def _names(cls: Any, use: str) -> tuple[str, ...]:
    """Fields by one of their options; those without a word on ``hash`` are in it if they are compared."""
    wanted = {field: getattr(field, use) for field in dataclasses.fields(cls)}
    return tuple(field.name for field, said in wanted.items() if (field.compare if said is None else said))


@contextmanager
def _thawed(params: list[Any]) -> Iterator[None]:
    """Let a class be made that assigns its fields: the standard library refuses it a frozen base."""
    for each in params:
        each.frozen = False
    try:
        yield
    finally:
        for each in params:
            each.frozen = True


def _frozen(cls: type, kw_only: bool) -> type:
    bases = [vars(base)["__dataclass_params__"] for base in cls.__mro__[1:] if "__dataclass_params__" in vars(base)]
    if not all(params.frozen for params in bases):
        return dataclasses.dataclass(cls, frozen=True, kw_only=kw_only)  # which says what is wrong
    with _thawed(bases):
        dataclasses.dataclass(cls, eq=False, repr=False, kw_only=kw_only)
    for name, method in _SHARED.items():
        if vars(cls).get(name) is None:  # Python puts None for the hash of a class with an __eq__
            setattr(cls, name, method)
    cls._assignable = frozenset(field.name for field in dataclasses.fields(cls))  # type: ignore[attr-defined]
    vars(cls)["__dataclass_params__"].frozen = True
    return cls


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, kw_only=False, **more):
        """What the standard library's does."""

        def decorate(cls: type) -> type:
            if frozen and not more:
                return _frozen(cls, kw_only)
            return dataclasses.dataclass(cls, frozen=frozen, kw_only=kw_only, **more)

        return decorate if cls is None else decorate(cls)
