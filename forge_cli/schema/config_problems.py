"""Problems of files that people write, as one sentence with the place in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.text import cut, did_you_mean
from forge_cli.core.wire import snake_case
from forge_cli.schema.marks import Loc, dotted, where_in

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MAX_SHOWN = 80
"""The most characters of an invalid value in a message."""

_SUBJECT = re.compile(r"^[A-Z]\w+ should ")
_NAME = re.compile(r"\^\[(.+?)\]\[(.+?)\]\{0,(\d+)\}\$")
_UNABLE = re.compile(r"( after validation)?, (unable to|got|not) .*", re.DOTALL)


def unknown(key: str, names: Iterable[str], inner: Mapping[str, str]) -> dict[str, Any]:
    """Return the context of an unknown key; ``inner`` maps keys to the sections that have them."""
    known = sorted(names)
    if section := inner.get(snake_case(key)):
        remedy = f"it belongs under {section}: {{{snake_case(key)}: ...}}"
    else:
        listed = "it takes no keys"
        if known:
            listed = f"known here: {', '.join(known)}"
        remedy = did_you_mean(snake_case(key), known, listed)
    return {"key": key, "problem": f"unknown key '{cut(key, _MAX_SHOWN, 'middle')}'; {remedy}"}


def sentence(error: ErrorDetails, data: Any, at: Loc, file: str | Mark | None) -> WorkerError:
    """Return pydantic's error as a sentence with its place."""
    # pydantic adds the alternatives of a union, such as "list[str]", to its location.
    loc = tuple(step for step in error["loc"] if not (isinstance(step, str) and "[" in step))
    context = error.get("ctx", {})
    if error["type"] == "unknown_key":
        mark = where_in(data, (*loc, context["key"]), key=True)
    else:
        mark = where_in(data, loc)
    place = dotted((*at, *loc))
    problem = _problem(error)
    if place:
        problem = f"{place}: {problem}"
    if mark is None:
        mark = Mark(file) if isinstance(file, str) else file
    return WorkerError(mark, problem)


def _problem(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    match error["type"]:
        case "missing":
            return "this key is required"
        case "unknown_key" | "value_error":
            return message
        case "model_type" | "dict_type" | "model_attributes_type":
            wanted = "be a mapping"
        case "bool_type" | "bool_parsing":
            wanted = "be true or false"
        case "string_too_short" | "too_short" if not error["input"]:
            return "must not be empty"
        case "string_pattern_mismatch":
            wanted = _in_words(error["ctx"]["pattern"])
        case _ if not _SUBJECT.match(message):
            return message
        # pydantic's words are for Python programmers: "Input should be a valid integer, unable to
        # ...".
        case _:
            wanted = (
                _UNABLE.sub("", _SUBJECT.sub("", message))
                .replace("a valid int", "an int")
                .replace("a valid ", "a ")
            )
    return f"must {wanted}, not {_given(error.get('input'))}{_as_mapping(error)}"


def _as_mapping(error: ErrorDetails) -> str:
    """Return a correction for ``toolsets`` written as a list."""
    given = error["input"]
    listed = given if isinstance(given, list) else [given]
    names = [f"{name}: {{}}" for name in listed if isinstance(name, str)]
    for each in listed:
        if isinstance(each, dict):
            names += [f"{name}: ..." for name in each]
    if error["loc"][-1:] != ("toolsets",) or not names:
        return ""
    return cut(f"; write {{{', '.join(names)}}}", _MAX_SHOWN, "end")


def _in_words(pattern: str) -> str:
    if name := _NAME.fullmatch(pattern):
        first, others, length = name.groups()
        return (
            f"have at most {int(length) + 1} characters, all of {others} and the first of {first}"
        )
    if pattern == "^https?://":
        return "begin with http:// or https://"
    return f"match pattern '{pattern}'"


def _given(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return cut(repr(value), _MAX_SHOWN, "middle")
        case _:
            return f"a value of type {type(value).__name__}"
