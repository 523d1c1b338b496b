"""The one base of everything read from a file: both spellings parse, unknown keys are errors, marks are kept."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, PrivateAttr, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.marks import Loc, dotted, snake_twin, where_in
from forge_cli.core.text import cut, did_you_mean
from forge_cli.core.wire import snake_case

SHOWN = 80
"""Characters of a wrong value."""

_SUBJECT = re.compile(r"^[A-Z]\w+ should ")
_UNABLE = re.compile(r"( after validation)?, (unable to|got|not) .*", re.DOTALL)


class Config(BaseModel):
    """A part of a file that people write.

    ``needsApproval`` and ``needs_approval`` are the same key (both at once is an error), a key that no field reads is
    an error with a suggestion, and ``where`` says where in the file a value stands.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, arbitrary_types_allowed=True)

    _source: Any = PrivateAttr(default=None)

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        config = handler(cls._canonical(data) if isinstance(data, dict) else data)
        if isinstance(data, dict):
            config._source = data
        return config

    @classmethod
    def _canonical(cls, data: dict[Any, Any]) -> dict[str, Any]:
        names = {field.alias or name: name for name, field in cls.model_fields.items()}
        found: dict[str, Any] = {}
        for key, value in data.items():
            name = key if key in names else snake_twin(str(key))
            if name not in names:
                raise PydanticCustomError("unknown_key", "{problem}", _unknown(str(key), names))
            if name in found:
                problem = f"'{name}' is given twice, as snake_case and as camelCase; keep one"
                raise PydanticCustomError("unknown_key", "{problem}", {"key": key, "problem": problem})
            found[name] = value
        return found

    @classmethod
    def empty(cls) -> Self:
        """What a file says that says nothing: defaults, which need no validation, so that none has to be built."""
        return cls.model_construct()

    def section(self, *loc: str) -> Any:
        """A raw part of what was read, with its marks, for the room that understands it."""
        data: Any = self._source
        for step in loc:
            data = data.get(step) if isinstance(data, dict) else None
        return data

    def where(self, *loc: str | int) -> Mark | None:
        """Where in its file the value at ``loc`` stands; None for what was not read from a file."""
        return where_in(self._source, loc)


def _unknown(key: str, names: Iterable[str]) -> dict[str, Any]:
    known = sorted(names)
    listed = f"known here: {', '.join(known)}" if known else "it takes no keys"
    remedy = did_you_mean(snake_case(key), known, listed)
    return {"key": key, "problem": f"unknown key '{cut(key, SHOWN, 'middle')}'; {remedy}"}


ConfigT = TypeVar("ConfigT", bound=Config)


def parse_config(cls: type[ConfigT], data: Any, *, at: Loc = (), file: str | None = None) -> ConfigT:
    """Read ``data``, which stands at ``at`` in its file; what is wrong with it becomes one sentence with a mark."""
    try:
        return cls.model_validate(data)
    except ValidationError as error:
        raise _sentence(error.errors(include_url=False)[0], data, at, file) from None


def _sentence(error: ErrorDetails, data: Any, at: Loc, file: str | None) -> WorkerError:
    loc = tuple(step for step in error["loc"] if not (isinstance(step, str) and "[" in step))
    context = error.get("ctx", {})
    if error["type"] == "unknown_key":
        mark = where_in(data, (*loc, context["key"]), key=True)
    else:
        mark = where_in(data, loc)
    place = dotted((*at, *loc))
    return WorkerError(
        mark or (Mark(file) if file else None), f"{place}: {_problem(error)}" if place else _problem(error)
    )


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
        case _:
            wanted = (
                _UNABLE.sub("", _SUBJECT.sub("", message)).replace("a valid int", "an int").replace("a valid ", "a ")
            )
    return f"must {wanted}, not {_given(error.get('input'))}"


def _given(value: Any) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str() | int() | float():
            return cut(repr(value), SHOWN, "middle")
        case _:
            return f"a {type(value).__name__}"
