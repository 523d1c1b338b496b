"""Frozen values: whatever the standard library's dataclasses do, these do, too."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from forge_cli.core.values import FEW, dataclass

Make = Callable[..., Any]


def plain(make: Make) -> type:
    @make(frozen=True)
    class Value:
        kind: ClassVar[str] = "value"
        a: int
        b: Any = 2
        hidden: int = field(default=3, repr=False)
        loose: Any = field(default=4, compare=False)
        unhashed: Any = field(default_factory=list, hash=False)
        own: int = field(default=6, hash=True, compare=False, kw_only=True)

    return Value


def keywords(make: Make) -> type:
    @make(frozen=True, kw_only=True)
    class Value:
        a: int
        b: Any = 2

    return Value


def child(make: Make) -> type:
    @make(frozen=True)
    class Base:
        a: int
        note: str = field(default="", kw_only=True, compare=False)

        def __repr__(self) -> str:
            return "own repr"

    @make(frozen=True)
    class Value(Base):
        b: Any = 2

    return Value


def own_methods(make: Make) -> type:
    @make(frozen=True)
    class Value:
        a: int
        b: Any = 2

        def __post_init__(self) -> None:
            object.__setattr__(self, "b", (self.b, "made"))

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.a == other.a

        def __repr__(self) -> str:
            return f"<{self.a}>"

    return Value


def plain_child(make: Make) -> type:
    class Value(plain(make)):  # type: ignore[misc]
        other = 1

    return Value


def no_fields(make: Make) -> type:
    @make(frozen=True)
    class Value:
        def __init__(self, a: int = 0, b: Any = 0) -> None:
            pass

    return Value


def thawed(make: Make) -> type:
    @make
    class Value:
        a: int
        b: Any = 2

    return Value


def ordered(make: Make) -> type:
    @make(frozen=True, order=True)
    class Value:
        a: int
        b: Any = 2

    return Value


def compared_by_identity(make: Make) -> type:
    @make(frozen=True, eq=False)
    class Value:
        a: int
        b: Any = 2

    return Value


SHAPES = [plain, keywords, child, own_methods, plain_child, no_fields, thawed, ordered, compared_by_identity]
ARGS: list[dict[str, Any]] = [{"a": 1}, {"a": 1, "b": 2}, {"a": 2}, {"a": 1, "b": "x"}, {"a": 1, "b": []}]


def outcome(action: Callable[[], Any]) -> Any:
    """What comes back, or what is raised."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error).replace("_Frozen.", "")


def assign(value: Any, name: str) -> None:
    setattr(value, name, 9)


def behaviour(cls: Any) -> list[Any]:
    """Everything that somebody could see of a class and of its values."""
    values = [cls(**args) for args in ARGS]
    seen: list[Any] = [[(each.name, each.type, each.kw_only, each.compare) for each in dataclasses.fields(cls)]]
    seen += [cls.__match_args__, cls.__dataclass_params__.frozen, cls.__dataclass_params__.order, cls.__annotations__]
    for value in values:
        seen += [repr(value).rpartition(".")[2], outcome(lambda value=value: hash(value) and None), vars(value)]
        seen += [value == other for other in values] + [value != other for other in values]
        orders = (operator.lt, operator.le, operator.gt, operator.ge)
        pairs = [(order, other) for order in orders for other in (*values, 1)]
        seen += [outcome(lambda value=value, pair=pair: pair[0](value, pair[1])) for pair in pairs]
        seen += [value == 1, copy.copy(value) == value, copy.deepcopy(value) == value]
        seen.append(outcome(lambda value=value: vars(dataclasses.replace(value, a=7))))
        seen.append(outcome(lambda value=value: dataclasses.asdict(value)))
        seen += [outcome(lambda value=value, name=name: assign(value, name)) for name in ("a", "other", "kind")]
        seen += [outcome(lambda value=value, name=name: delattr(value, name)) for name in ("b", "other")]
        seen.append(vars(value))
    return [*seen, outcome(lambda: cls(1, 2, 3, 4, 5, 6, 7) and None), outcome(lambda: cls(z=1))]


@pytest.mark.parametrize("before", [0, FEW], ids=["the first of them", "many of them"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_values_are_as_the_standard_library_makes_them(shape: Callable[[Make], type], before: int) -> None:
    cls = shape(dataclass)
    for _ in range(before):
        cls(a=1)
    assert behaviour(cls) == behaviour(shape(dataclasses.dataclass))


@dataclass(frozen=True)
class Point:
    x: int
    y: Any = 0


def test_values_can_be_pickled_and_matched() -> None:
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("no match")


def test_equal_values_have_one_hash() -> None:
    assert {Point(1), Point(1, 0), Point(2)} == {Point(1), Point(2)}


def test_an_order_is_not_compiled_either() -> None:
    cls = ordered(dataclass)
    assert sorted([cls(2), cls(1, 3), cls(1)]) == [cls(1), cls(1, 3), cls(2)]
    files = {vars(cls)[name].__code__.co_filename for name in ("__lt__", "__le__", "__gt__", "__ge__")}
    assert "<string>" not in files


def test_a_value_within_itself_is_shown() -> None:
    inside: list[Any] = []
    inside.append(Point(1, inside))
    assert repr(inside[0]) == "Point(x=1, y=[...])"


def test_the_standard_library_may_extend_a_value() -> None:
    @dataclasses.dataclass(frozen=True)
    class Named(Point):
        name: str = ""

    assert Named(1, 2, "a") == Named(1, 2, "a") != Named(1, 2, "b")
    with pytest.raises(FrozenInstanceError):
        Named(1).x = 2  # type: ignore[misc]


def test_a_value_may_not_extend_what_can_be_assigned_nor_the_other_way_round() -> None:
    @dataclasses.dataclass
    class Loose:
        x: int = 0

    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
        dataclass(frozen=True)(type("Value", (Loose,), {}))
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
        dataclass(type("Value", (Point,), {}))


def test_only_the_init_of_a_value_is_compiled() -> None:
    """What the standard library would compile is what every start of the program would wait for."""
    assert [Point(number).x for number in range(FEW + 1)] == [*range(FEW + 1)]
    compiled = {name for name, item in vars(Point).items() if getattr(item, "__code__", None)}
    own = {name for name in compiled if vars(Point)[name].__code__.co_filename == "<string>"}
    assert own == {"__init__"}


def test_a_class_has_a_signature_before_and_after_its_first_value() -> None:
    def signatures(make: Make) -> list[str]:
        classes = [shape(make) for shape in (plain, keywords, child, no_fields, thawed, plain_child)]
        before = [str(inspect.signature(cls)) for cls in classes]
        for cls in classes:
            cls(a=1)
        assert [str(inspect.signature(cls)) for cls in classes] == before
        return before

    assert signatures(dataclass) == signatures(dataclasses.dataclass)


def test_nothing_is_compiled_for_few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer versions of the standard library compile a frame for the methods, also where there are none."""
    compiled: list[str] = []
    real = exec

    def noted(source: str, *where: Any) -> None:
        compiled.append(source)
        real(source, *where)

    monkeypatch.setattr("builtins.exec", noted)
    classes = [plain(dataclass), thawed(dataclass)]
    for cls in classes:
        assert [cls(number).a for number in range(FEW)] == [*range(FEW)]
    assert not [source for source in compiled if "self" in source]
    for cls in classes:
        cls(a=1)
    assert len([source for source in compiled if "self" in source]) == len(classes)
    compiled.clear()
    dataclasses.dataclass(type("Other", (), {"__annotations__": {"a": int}}))
    assert [source for source in compiled if "self" in source]


@dataclass(frozen=True)
class Held:
    """Fields may have any name."""

    _held: int = 1
    value: list[int] = field(default_factory=list)
    first: int = field(default=3, init=False)
    made: list[int] = field(default_factory=list, init=False)


def test_fields_that_are_not_given() -> None:
    assert vars(Held(2)) == {"_held": 2, "value": [], "made": []}
    assert Held().first == 3
