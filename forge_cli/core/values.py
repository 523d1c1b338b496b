"""``dataclass`` as in the standard library, but classes share their methods, so that programs start faster.

The standard library compiles up to six methods for every class at each start. Here only ``__init__`` is compiled, and
only for a class of which there are many values: most programs make one or two of each.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NamedTuple

__all__ = ["dataclass"]

FEW = 10
"""Values of a class that take less time to make one by one than to compile its ``__init__``."""


class _Plain:
    """The methods that dataclasses share; each class gets them as its own."""

    @recursive_repr()
    def __repr__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in _fields(self, "repr").items()]
        return f"{type(self).__qualname__}({', '.join(fields)})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _fields(self, "compare") == _fields(other, "compare")

    __hash__ = None  # type: ignore[assignment]


class _Frozen:
    """Those that frozen ones have besides."""

    def __hash__(self) -> int:
        return hash(tuple(_fields(self, "hash").values()))

    def __setattr__(self, name: str, value: object) -> None:
        if not _is_extra(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if not _is_extra(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], Any]:
    def method(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return compare(tuple(_fields(self, "compare").values()), tuple(_fields(other, "compare").values()))

    return method


_ORDER = {f"__{name}__": _ordered(getattr(operator, name)) for name in ("lt", "le", "gt", "ge")}
_PLAIN = {name: vars(_Plain)[name] for name in ("__repr__", "__eq__", "__hash__")}
_FROZEN = {**_PLAIN, **{name: vars(_Frozen)[name] for name in ("__hash__", "__setattr__", "__delattr__")}}


_SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")
"""What makes of an annotation something else than a field."""
_COMPARING = frozenset({"__eq__", "__hash__"})


class _Missing:
    """Stands for what a factory makes."""

    def __repr__(self) -> str:
        return "<factory>"


_MISSING = _Missing()


class _Signature:
    """The signature of a class, for those who ask; its ``__init__`` has none before it is compiled."""

    def __get__(self, value: object, cls: type) -> inspect.Signature:
        maker = next((base for base in cls.__mro__ if "__init__" in vars(base)), object)
        if value is not None or "_late" not in vars(maker):
            raise AttributeError("__signature__")
        whole = inspect.signature(_compiled_init(maker))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def _late_init(cls: type) -> Callable[..., None]:
    """An ``__init__`` that is compiled once it is worth it, or where one is needed that says what is wrong."""
    calls = 0

    def first(self: object, *args: object, **named: object) -> None:
        nonlocal calls
        calls += 1
        if calls > FEW or not _assign(cls, self, args, named):
            init = _compiled_init(cls)
            type.__setattr__(cls, "__init__", init)
            init(self, *args, **named)

    return first


def _assign(cls: Any, value: Any, args: tuple[object, ...], named: dict[str, object]) -> bool:
    """Do what ``__init__`` does, unless the arguments do not fit."""
    plan = _plan(cls)
    given = {**dict(zip(plan.positional, args, strict=False)), **named}
    fits = len(args) + len(named) == len(given) and plan.known >= given.keys() >= plan.required
    if not fits:
        return False
    held = {field.name: given[field.name] if field.name in given else _default(field) for field in plan.fields}
    if cls.__setattr__ is _Frozen.__setattr__:
        value.__dict__.update(held)
    else:
        for name, item in held.items():
            setattr(value, name, item)
    if hasattr(cls, "__post_init__"):
        value.__post_init__()
    return True


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if _has_factory(field) else field.default  # type: ignore[operator]


class _Plan(NamedTuple):
    """What the ``__init__`` of a class takes, and what it writes."""

    positional: list[str]
    known: frozenset[str]
    required: frozenset[str]
    fields: list[dataclasses.Field[Any]]


@cache
def _plan(cls: Any) -> _Plan:
    fields = [field for field in dataclasses.fields(cls) if field.init]
    made = [field for field in dataclasses.fields(cls) if not field.init and _has_factory(field)]
    positional = [field.name for field in fields if not field.kw_only]
    required = [field.name for field in fields if field.default is dataclasses.MISSING and not _has_factory(field)]
    return _Plan(positional, frozenset(field.name for field in fields), frozenset(required), [*fields, *made])


def _compiled_init(cls: Any) -> Callable[..., None]:
    fields = [field for field in _plan(cls).fields if field.init]
    known: dict[str, Any] = {"_MISSING": _MISSING}
    values: dict[str, str] = {}
    for field in _plan(cls).fields:
        value = field.name
        if _has_factory(field):
            known[f"_make_{field.name}"] = field.default_factory
            value = f"_make_{value}() if {value} is _MISSING else {value}" if field.init else f"_make_{value}()"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{field.name}"] = field.default
        values[field.name] = value
    if cls.__setattr__ is _Frozen.__setattr__:
        # all at once: it takes Python three times as long to read what was put into a __dict__ one by one
        held = ", ".join(f"{name!r}: {value}" for name, value in values.items())
        lines = ["__held__ = self.__dict__", f"__held__ |= {{{held}}}"]
    else:
        lines = [f"self.{name} = {value}" for name, value in values.items()]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    named = [field for field in fields if field.kw_only]
    params = ["self", *map(_param, (field for field in fields if not field.kw_only))]
    params += ["*", *map(_param, named)] if named else []
    exec(f"def __init__({', '.join(params)}):\n  " + "\n  ".join(lines or ["pass"]), known)  # noqa: S102
    init: Callable[..., None] = known["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {**{field.name: field.type for field in fields}, "return": None}
    return init


def _param(field: dataclasses.Field[Any]) -> str:
    if _has_factory(field):
        return f"{field.name}=_MISSING"
    return field.name if field.default is dataclasses.MISSING else f"{field.name}=_default_{field.name}"


def _has_factory(field: dataclasses.Field[Any]) -> bool:
    return field.default_factory is not dataclasses.MISSING


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


def _frozen(cls: type, kw_only: bool, eq: bool) -> type:
    bases = [vars(base)["__dataclass_params__"] for base in cls.__mro__[1:] if "__dataclass_params__" in vars(base)]
    if not all(params.frozen for params in bases):
        return dataclasses.dataclass(cls, frozen=True, kw_only=kw_only)  # which says what is wrong
    with _thawed(bases):
        _finish(cls, kw_only, eq, _FROZEN)
    vars(cls)["__dataclass_params__"].frozen = True
    return cls


def _plain(cls: type, kw_only: bool, eq: bool) -> type:
    if any(vars(base)["__dataclass_params__"].frozen for base in cls.__mro__ if "__dataclass_params__" in vars(base)):
        return dataclasses.dataclass(cls, kw_only=kw_only)  # which says what is wrong
    _finish(cls, kw_only, eq, _PLAIN)
    return cls


def _find_fields(cls: Any, kw_only: bool) -> None:
    """Let the standard library do it, without the three looks that it has at the text of each annotation."""
    annotations = vars(cls).get("__annotations__", {})
    usual = [name for name, text in annotations.items() if isinstance(text, str) and not any(map(text.count, _SPECIAL))]
    cls.__annotations__ = {**annotations, **dict.fromkeys(usual, object)}
    try:
        dataclasses.dataclass(cls, init=False, eq=False, repr=False, kw_only=kw_only)
    finally:
        cls.__annotations__ = annotations
    for name in usual:
        cls.__dataclass_fields__[name].type = annotations[name]


def _finish(cls: Any, kw_only: bool, eq: bool, methods: dict[str, Any]) -> None:
    """Find the fields, and add what the standard library would compile."""
    cls.__doc__ = cls.__doc__ or cls.__name__
    _find_fields(cls, kw_only)
    for name, method in methods.items():
        wanted = eq or name not in _COMPARING
        if wanted and vars(cls).get(name) is None:  # Python puts None for the hash of a class with an __eq__
            setattr(cls, name, method)
    if "__init__" not in vars(cls):
        cls.__init__, cls.__signature__, cls._late = _late_init(cls), _Signature(), True
    vars(cls)["__dataclass_params__"].init = True


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, kw_only=False, eq=True, order=False, **more):
        """What the standard library's does."""

        def decorate(cls: type) -> type:
            if more or (order and (not eq or not _ORDER.keys().isdisjoint(vars(cls)))):
                return dataclasses.dataclass(cls, frozen=frozen, kw_only=kw_only, eq=eq, order=order, **more)
            made = _frozen(cls, kw_only, eq) if frozen else _plain(cls, kw_only, eq)
            for name, method in _ORDER.items() if order else ():
                setattr(made, name, method)
            made.__dataclass_params__.order = order
            return made

        return decorate if cls is None else decorate(cls)
