from __future__ import annotations

import enum
import functools
import inspect
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr

from forge_cli.core.errors import SchemaError
from forge_cli.schema.json.input_schema import InputSchema, typed_args
from forge_cli.schema.json.signature import describe, signature_model

if TYPE_CHECKING:

    class Missing: ...


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


@dataclass
class Point:
    x: int
    y: int = 0


class Options(BaseModel):
    depth: int = 1
    title: str = "untitled"


class Opaque:
    pass


def schema_of(function: Any, **options: Any) -> dict[str, Any]:
    return InputSchema.of(signature_model(function, **options)).json_schema


def call(function: Any, args: dict[str, Any]) -> dict[str, Any]:
    model = signature_model(function)
    return typed_args(model, InputSchema.of(model).validate(args))


def fibonacci(n: Annotated[int, Field(ge=0, description="Position in sequence")]) -> int:
    """Calculate the nth Fibonacci number."""
    return n


def test_function_without_parameters_takes_an_empty_object() -> None:
    def nothing() -> None: ...

    assert schema_of(nothing) == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }
    assert call(nothing, {}) == {}


def test_defaults_keyword_only_and_skipped_parameters_are_read() -> None:
    def git_push(
        branch: str, force: bool = False, *, remote: str = "origin", context: Missing
    ) -> None: ...

    model = signature_model(git_push, skip={"context"})
    schema = InputSchema.of(model)
    assert schema.json_schema["required"] == ["branch"]
    assert schema.validate({"branch": "main"}) == {
        "branch": "main",
        "force": False,
        "remote": "origin",
    }


def google(
    path: str, limit: int = 3, other: Annotated[int, Field(description="from Field")] = 1
) -> None:
    """Read it.

    All of it:
      indented.

    Args:
        path (str): Where it
            lies.
        limit: How many.
        other: from the docstring

    Returns:
        The text.
    """


def numpy(path: str, limit: int = 3) -> None:
    """Read it.

    Parameters
    ----------
    path : str
        Where it
        lies.
    limit : int, optional
        How many.

    Returns
    -------
    str
        The text.
    """


def sphinx(path: str, limit: int = 3) -> None:
    """Read it.

    :param path: Where it
        lies.
    :param int limit: How many.
    :returns: The text.
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_descriptions_come_from_the_docstring(function: Any) -> None:
    properties = schema_of(function)["properties"]
    assert properties["path"]["description"] == "Where it lies."
    assert properties["limit"]["description"] == "How many."


def test_description_in_a_field_overrides_the_docstring() -> None:
    assert schema_of(google)["properties"]["other"]["description"] == "from Field"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (google, "Read it.\n\nAll of it:\n  indented.\n\nReturns:\n    The text."),
        (numpy, "Read it.\n\nReturns\n-------\nstr\n    The text."),
        (sphinx, "Read it.\n\n:returns: The text."),
        (fibonacci, "Calculate the nth Fibonacci number."),
        (schema_of, ""),
        (functools.partial(fibonacci, n=3), "Calculate the nth Fibonacci number."),
    ],
)
def test_description_omits_the_section_of_parameters(function: Any, text: str) -> None:
    assert describe(function) == text


def test_field_alias_names_the_argument() -> None:
    def copy(from_: Annotated[str, Field(alias="from")], to: str = "x") -> None: ...

    assert list(schema_of(copy)["properties"]) == ["from", "to"]
    assert call(copy, {"from": "a"}) == {"from_": "a", "to": "x"}


def test_none_as_default_makes_a_parameter_optional() -> None:
    def find(name: str = None, depth: Annotated[int, Field(ge=1)] = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013

    properties = schema_of(find)["properties"]
    assert properties["depth"]["anyOf"] == [{"type": "integer", "minimum": 1}, {"type": "null"}]
    assert call(find, {}) == {"name": None, "depth": None}
    assert call(find, {"name": "null"}) == {"name": "null", "depth": None}
    assert call(find, {"depth": "null"}) == {"name": None, "depth": None}


def test_default_that_json_cannot_encode_stays_in_python() -> None:
    marker, secret = Opaque(), SecretStr("k")

    def wait(
        seconds: float = math.inf,
        key: SecretStr = secret,
        what: Any = marker,
        tags: list[str] = (),  # type: ignore[assignment]
    ) -> None: ...

    schema = InputSchema.of(signature_model(wait))
    assert "default" not in schema.json_schema["properties"]["seconds"]
    assert "default" not in schema.json_schema["properties"]["key"]
    assert schema.validate({}) == {"tags": []}
    assert call(wait, {}) == {"seconds": math.inf, "key": secret, "what": marker, "tags": []}


def test_secret_reaches_the_function_unmasked() -> None:
    def login(key: SecretStr) -> None: ...

    assert call(login, {"key": "hush"})["key"].get_secret_value() == "hush"


def test_field_can_be_the_default_of_a_parameter() -> None:
    def read(
        size: Annotated[int, Field(ge=1)],
        step: Annotated[int | None, Field(default=4, ge=1)],
        limit: int = Field(3, ge=1, description="How many"),
        least: Annotated[int, Field(default=1)] = 2,
    ) -> None: ...

    assert schema_of(read)["required"] == ["size"]
    assert schema_of(read)["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "default": 3,
        "description": "How many",
    }
    assert call(read, {"size": 2}) == {"size": 2, "step": 4, "limit": 3, "least": 2}


def test_sets_are_sorted() -> None:
    def tag(
        names: set[str] = {"c", "a", "b"},  # noqa: B006
        mixed: frozenset[int | str] = frozenset({2, "a", 10}),
    ) -> None: ...

    schema = InputSchema.of(signature_model(tag))
    assert schema.json_schema["properties"]["names"]["default"] == ["a", "b", "c"]
    assert schema.validate({"names": ["z", "y", "x"]}) == {
        "names": ["x", "y", "z"],
        "mixed": ["a", 10, 2],
    }
    assert call(tag, {"names": ["z"]}) == {"names": {"z"}, "mixed": frozenset({2, "a", 10})}


class Folder:
    def list(self, path: str, deep: bool = False) -> None:
        """List it."""

    def __call__(self, path: str) -> None:
        """Open it."""


def test_methods_partials_wrapped_functions_and_callable_objects_work() -> None:
    @functools.wraps(fibonacci)
    def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert call(Folder().list, {"path": "a"}) == {"path": "a", "deep": False}
    assert list(schema_of(Folder.list, skip=("self",))["properties"]) == ["path", "deep"]
    assert call(wrapper, {"n": 1}) == {"n": 1}
    assert call(functools.partial(fibonacci, n=4), {}) == {"n": 4}
    assert call(Folder(), {"path": "a"}) == {"path": "a"}


def unhinted(path) -> None: ...  # type: ignore[no-untyped-def]
def starred(*paths: str) -> None: ...
def double_starred(**paths: str) -> None: ...
def positional(path: str, /) -> None: ...
def unresolved(path: Missing) -> None: ...
def opaque(path: Opaque) -> None: ...
def clash(a: Annotated[int, Field(alias="b")], b: int) -> None: ...
def foreign(größe: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            unhinted,
            "unhinted: parameter 'path' has no type hint; add one (path: str), or define unhinted_schema",
        ),
        (
            starred,
            "starred: parameter 'paths' takes any number of values; name each of them, or define starred_schema",
        ),
        (double_starred, "double_starred: parameter 'paths' takes any number of values"),
        (
            positional,
            "positional: parameter 'path' is positional-only and cannot be passed by name; remove the '/'",
        ),
        (
            unresolved,
            "unresolved: parameter 'path': type hint 'Missing' cannot be resolved (name 'Missing' is not",
        ),
        (opaque, "opaque: 'path' (<class "),
        (clash, "clash: parameters 'a' and 'b' share a name"),
        (foreign, "foreign: property name 'größe' must match ^[a-zA-Z0-9_.-]{1,64}$"),
        (type, "type: its signature cannot be read"),
    ],
)
def test_function_that_cannot_be_a_tool_says_why(function: Any, sentence: str) -> None:
    with pytest.raises(SchemaError) as caught:
        InputSchema.of(signature_model(function))
    assert str(caught.value).startswith(sentence)


def test_root_model_is_refused() -> None:
    class Names(RootModel[list[str]]):
        pass

    with pytest.raises(SchemaError, match="Names: a RootModel has no named fields"):
        InputSchema.of(Names)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
moments = st.datetimes(timezones=st.just(UTC))
typed_values = st.one_of(
    st.tuples(st.just(int), st.integers(-(2**70), 2**70)),
    st.tuples(st.just(float), st.floats(allow_nan=False, allow_infinity=False)),
    st.tuples(st.just(bool), st.booleans()),
    st.tuples(st.just(str), text),
    st.tuples(st.just(int | None), st.none() | st.integers()),
    st.tuples(st.just(list[str]), st.lists(text, max_size=3)),
    st.tuples(st.just(dict[str, int]), st.dictionaries(text, st.integers(), max_size=3)),
    st.tuples(st.just(tuple[int, str]), st.tuples(st.integers(), text)),
    st.tuples(st.just(set[int]), st.sets(st.integers(), max_size=3)),
    st.tuples(st.just(Literal["a", 1, None]), st.sampled_from(["a", 1, None])),
    st.tuples(st.just(Colour), st.sampled_from(Colour)),
    st.tuples(st.just(Point), st.builds(Point, st.integers(), st.integers())),
    st.tuples(st.just(Options), st.builds(Options, depth=st.integers(), title=text)),
    st.tuples(
        st.just(list[Point | None]),
        st.lists(st.none() | st.builds(Point, st.integers()), max_size=3),
    ),
    st.tuples(st.just(datetime), moments),
    st.tuples(st.just(date), st.dates()),
    st.tuples(st.just(timedelta), st.timedeltas(timedelta(days=-999), timedelta(days=999))),
    st.tuples(st.just(UUID), st.uuids()),
    st.tuples(st.just(Decimal), st.decimals(allow_nan=False, allow_infinity=False, places=2)),
    st.tuples(st.just(Path), st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5})*", fullmatch=True).map(Path)),
)
names = st.sampled_from(
    ["n", "json", "schema", "copy", "model_config", "_x", "self", "timeout", "class_", "arg1"]
)


@given(st.dictionaries(names, typed_values, max_size=4))
def test_valid_value_survives_the_round_trip(
    parameters: dict[str, tuple[Any, Any]],
) -> None:
    def function(**_: Any) -> None: ...

    kind = inspect.Parameter.KEYWORD_ONLY
    declared = [
        inspect.Parameter(name, kind, annotation=hint) for name, (hint, _) in parameters.items()
    ]
    function.__signature__ = inspect.Signature(declared)  # type: ignore[attr-defined]
    model = signature_model(function)
    values = {name: value for name, (_, value) in parameters.items()}
    plain = model(**values).model_dump(mode="json", by_alias=True)

    schema = InputSchema.of(model)
    validated = schema.validate(plain)

    assert list(validated) == list(plain)
    assert schema.validate(validated) == validated
    assert typed_args(model, validated) == values
