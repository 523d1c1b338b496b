"""Args of plain types are read as pydantic reads them, and what is not plain is left to it.

Covers forge_cli.core.model_input.
"""

import json
from collections.abc import Callable
from typing import Annotated, Any, Optional, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from forge_cli import ReadPath, WritePath
from forge_cli.core import signature
from forge_cli.core.model_input import typed_args
from forge_cli.core.paths import PathArgument
from forge_cli.core.plain import PlainFields
from forge_cli.core.schema import InputSchema, InvalidInput
from forge_cli.core.signature import keyword_args, plain_args, plain_fields, read_strict, signature_model
from forge_cli.core.tool import Tool
from forge_cli.core.zones import Access
from forge_cli.toolsets.filesystem import FilesystemToolset


def plain(
    path: ReadPath,
    count: Annotated[int, Field(ge=1, lt=10)] = 1,
    limit: Annotated[int | None, Field(gt=0, le=5)] = None,
    share: Annotated[float, Field(le=1)] = 0.5,
    name: Annotated[str, Field(min_length=1, max_length=3)] = "ä",
    loud: bool = False,
) -> None: ...


PLAIN = signature_model(plain)
NAMES = st.sampled_from(["path", "count", "limit", "share", "name", "loud", "more"])
NUMBERS = st.integers(-2, 12) | st.sampled_from([2**63, -(2**63), 10**30]) | st.floats()
VALUES = st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "äöü", "long", "7", "\ud800", "true"])


@given(st.dictionaries(NAMES, VALUES | st.lists(VALUES, max_size=1), max_size=7))
def test_what_is_read_plainly_is_what_pydantic_reads(args: dict[str, Any]) -> None:
    fields = plain_fields(PLAIN)
    assert fields is not None
    found = fields.read(args)
    if found is not None:
        instance = read_strict(PLAIN, args)
        assert list(found.items()) == list(plain_args(instance, args).items())
        assert fields.keywords(args) == keyword_args(instance)


def test_the_usual_args_are_read_plainly() -> None:
    schema = InputSchema.of(PLAIN)
    assert schema.read_plainly({"path": "notes.txt", "count": 3}) == {
        "path": "notes.txt",
        "count": 3,
        "limit": None,
        "share": 0.5,
        "name": "ä",
        "loud": False,
    }


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"path": 7},
        {"path": "a", "count": 10},
        {"path": "a", "name": ""},
        {"path": "a", "more": 1},
        {"path": "\ud800"},
    ],
    ids=str,
)
def test_what_is_wrong_is_told_as_ever(args: dict[str, Any]) -> None:
    schema = InputSchema.of(PLAIN)
    assert schema.read_plainly(args) is None
    with pytest.raises(InvalidInput):
        schema.validate(args)


def test_text_for_a_number_is_still_coerced() -> None:
    assert InputSchema.of(PLAIN).validate({"path": "a", "count": "3"})["count"] == 3


def a_list(of: list[int]) -> None: ...
def a_pattern(text: Annotated[str, Field(pattern="^a")]) -> None: ...
def a_step(number: Annotated[int, Field(multiple_of=2)]) -> None: ...
def a_choice(either: int | str) -> None: ...
def an_odd_default(number: int = "seven") -> None: ...  # type: ignore[assignment]
def made(text: Annotated[str, Field(default_factory=str)]) -> None: ...


@pytest.mark.parametrize("function", [a_list, a_pattern, a_step, a_choice, an_odd_default, made])
def test_what_takes_more_than_types_and_bounds_is_left_to_pydantic(function: Any) -> None:
    assert plain_fields(signature_model(function)) is None


def test_args_are_not_shared_with_whoever_gave_them() -> None:
    given = {"path": "a"}
    assert InputSchema.of(PLAIN).validate(given) is not given
    assert typed_args(PLAIN, {"path": "a"})["path"] == "a"


def test_paths_are_found_in_plain_fields_and_below_them() -> None:
    def nested(first: ReadPath, more: list[ReadPath]) -> None: ...

    flat, deep = Tool.from_function(plain), Tool.from_function(nested)
    assert [(use.path, use.at) for use in flat.paths({"path": "a", "count": 1})] == [("a", ("path",))]
    uses = deep.paths({"first": "a", "more": ["b", "c"]})
    assert [(use.path, use.at) for use in uses] == [("a", ("first",)), ("b", ("more", 0)), ("c", ("more", 1))]


def test_what_is_known_of_fields_can_be_kept_as_json() -> None:
    fields = plain_fields(PLAIN)
    assert fields is not None
    assert PlainFields.from_facts(json.loads(json.dumps(fields.facts()))) == fields


def bare() -> None: ...
def texts(a: str, b: Annotated[str, Field(description="ä\n", min_length=1)] = "ä", c: str | None = None) -> None: ...
def numbers(a: Annotated[int, Field(ge=1, le=5)], b: float = 1.5, c: Annotated[float, Field(gt=0.5)] = 2.0) -> None: ...
def options(a: Annotated[int | None, Field(lt=9, description="few")] = None, b: Optional[bool] = None) -> None: ...  # noqa: UP045
def paths(a: Annotated[str, PathArgument(Access.READ, "file")], b: WritePath = "x") -> None: ...
def described(a: Annotated[ReadPath, Field(description="where", max_length=9)]) -> None: ...
def titled(a: Annotated[int, Field(title="A", alias="class")] = 1) -> None: ...
def odd_bounds(a: Annotated[bool, Field(ge=0)] = True) -> None: ...
def open_path(a: ReadPath | None = None) -> None: ...
def examples(a: Annotated[str, Field(examples=["x"])]) -> None: ...
def extra(a: Annotated[str, Field(json_schema_extra={"x": 1})]) -> None: ...
def old(a: Annotated[str, Field(deprecated=True)]) -> None: ...


PLAINLY = [plain, bare, texts, numbers, options, paths, described, titled]


@pytest.mark.parametrize("function", [*PLAINLY, odd_bounds, open_path, examples, extra, old])
def test_a_plain_schema_is_the_one_that_pydantic_makes(function: Callable[..., Any]) -> None:
    model = signature_model(function)
    made = signature._described_plainly(model)
    assert (made is not None) is (function in PLAINLY)
    assert made is None or json.dumps(made) == json.dumps(signature._described_by_pydantic(model))


def test_the_file_tools_are_described_plainly() -> None:
    for tool in FilesystemToolset()._tools:
        model = cast(type[BaseModel], tool.input_schema)
        made = signature._described_plainly(model)
        assert json.dumps(made) == json.dumps(signature._described_by_pydantic(model))
