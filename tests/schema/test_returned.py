"""Results of functions are held against their return annotations.

Covers forge_cli.schema.returned.
"""

import dataclasses
import datetime
import enum
import pathlib
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from forge_cli import Json, Text, Tool, ToolError, tool
from forge_cli.testing import Project, call, calls

pytestmark = pytest.mark.anyio


class Line(BaseModel):
    amount: int


class Order(TypedDict):
    lines: list[Line]


@dataclasses.dataclass
class Point:
    x: int


class Colour(enum.Enum):
    RED = 1


class Draws(Protocol):
    def draw(self) -> int: ...


class Label(str): ...


def function(annotation: Any, value: Any) -> Callable[[], Any]:
    def give() -> Any:
        """Give it."""
        return value

    give.__annotations__["return"] = annotation
    return give


ALLOWED = [
    *(
        (int, 3),
        (int, True),
        (float, 3),
        (str, Label("x")),
        (Sequence[int], (1, 2)),
        (None, None),
        (int | None, None),
    ),
    *(
        (Line, Line(amount=1)),
        (list[Line], [Line(amount=1)]),
        (Order, {"lines": [Line(amount=1)]}),
        (Point, Point(1)),
    ),
    *(
        (Colour, Colour.RED),
        (Text, Text("x")),
        (Json, Json({})),
        (Text | Json, Json({})),
        (list[Text], [Text("x")]),
    ),
    *(
        (Any, object()),
        (object, 3),
        (Draws, 3),
        ("NotThere", 3),
        (pathlib.Path, pathlib.Path()),
        (bytes, b""),
    ),
    *(
        (datetime.date, datetime.date(2026, 1, 2)),
        (Literal["a"], "a"),
        (Iterable[str], ["a"]),
        (Awaitable[int], 3),
    ),
    *(
        (Mapping[str, Any], {}),
        (tuple[int, str], (1, "a")),
        (typing.TypeVar("Free"), 3),
        (typing.NoReturn, 3),
    ),
]
WRONG = [
    (int, "3", "declared int: must be a valid integer, not '3'"),
    (str, b"x", "declared str: must be a valid string, not a value of type bytes"),
    (list[int], [1, "x"], "declared list[int]: [1]: must be a valid integer, not 'x'"),
    (dict[str, int], {"a": "1"}, "a: must be a valid integer, not '1'"),
    (None, 1, "declared NoneType: must be None, not 1"),
    (
        Order,
        {"lines": [{"amount": "x"}]},
        "declared Order: lines[0].amount: must be a valid integer, not 'x'",
    ),
    (Order, {}, "lines: is missing"),
    (Point, {"x": 1}, "must be an instance of Point, not an object"),
    (Colour, 1, "must be an instance of Colour, not 1"),
    (Text, "x", "must be an instance of Text, not 'x'"),
    (Literal["a"], "b", "must be 'a', not 'b'"),
    (Awaitable[int], "x", "must be a valid integer, not 'x'"),
    (typing.Annotated[int, "an age"], "y", "must be a valid integer, not 'y'"),
    (list[int], ["x"] * 9, "[4]: must be a valid integer, not 'x'; and more"),
]


@pytest.mark.parametrize(("annotation", "value"), ALLOWED)
async def test_declared_result_passes_unchanged(annotation: Any, value: Any) -> None:
    assert await Tool.from_function(function(annotation, value)).execute({}, None) is value


@pytest.mark.parametrize(("annotation", "value", "problem"), WRONG)
async def test_undeclared_result_is_an_error_with_its_place(
    annotation: Any, value: Any, problem: str
) -> None:
    with pytest.raises(ToolError) as error:
        await Tool.from_function(function(annotation, value)).execute({}, None)
    assert str(error.value).startswith("give was called, but its result is not the declared ")
    assert str(error.value).endswith(problem)


async def test_author_can_leave_results_unchecked() -> None:
    unchecked = tool(check_output=False)(function(int, "x"))
    assert await Tool.from_function(unchecked).execute({}, None) == "x"
    assert await Tool.from_function(function(int, "x"), check_output=False).execute({}, None) == "x"


TOOLS = '''
async def total(city: str) -> int:
    """Add up."""
    return "many"
'''


def test_result_error_names_the_tool_and_its_declared_type(project: Project) -> None:
    project.write("tools.py", TOOLS)
    section = "custom: {module: ./tools.py, tools: [total], approval: {default: preApproved}}"
    project.write("worker.yaml", f"name: w\ntoolsets:\n  {section}\n")
    seen = project.run(calls(call("total", city="Bern")), "{result}")
    assert seen.statuses == ["error"]
    assert "total was called, but its result is not the declared int" in seen.result.response
