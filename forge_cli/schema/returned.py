"""The result of a function, checked against its return annotation before the model gets it."""

from __future__ import annotations

import collections.abc
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never, NoReturn, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from forge_cli.core.errors import ToolError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_UNCHECKED = (Any, object, Never, NoReturn, inspect.Signature.empty)
_AWAITED = (collections.abc.Awaitable, collections.abc.Coroutine)
_MOST = 5
"""Problems that are told; a list of a thousand wrong items has a thousand."""
_known: WeakKeyDictionary[Callable[..., Any], TypeAdapter[Any] | None] = WeakKeyDictionary()


def check_returned(tool: str, function: Callable[..., Any], value: Any) -> None:
    """Raise a ToolError where a function gave what its return annotation does not allow.

    The value itself stays as it is. An annotation that pydantic cannot check, or that does not resolve, is no promise.
    """
    hint = _return_hint(function)
    if isinstance(hint, type) and hint in type(value).__mro__:
        return  # also True for an int, which a strict check would refuse
    adapter = _adapter(function, hint)
    if adapter is None:
        return
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        details = error.errors(include_url=False)
        told = list(dict.fromkeys(_problem(detail) for detail in details[:_MOST]))
        more = ["and more"] if len(details) > _MOST else []
        wanted = (
            hint.__name__
            if isinstance(hint, type) and not get_args(hint)
            else inspect.formatannotation(hint)
        )
        problem = "; ".join([*told, *more])
        raise ToolError(
            f"{tool} was called, and its result is not the {wanted} that it promises: {problem}"
        ) from None
    except Exception:  # third-party code: a type that cannot be asked about, such as a protocol
        return


def _return_hint(function: Callable[..., Any]) -> Any:
    try:
        hint = get_type_hints(function, include_extras=True).get("return", inspect.Signature.empty)
    except Exception:  # third-party code: a name that does not resolve when the program runs
        return inspect.Signature.empty
    if get_origin(hint) in _AWAITED:
        return get_args(hint)[-1]
    return hint


def _adapter(function: Callable[..., Any], hint: Any) -> TypeAdapter[Any] | None:
    key = getattr(function, "__func__", function)
    try:
        if key not in _known:
            _known[key] = _new_adapter(hint)
        return _known[key]
    except (
        TypeError
    ):  # an object that is called as a function, and cannot be kept by weak reference
        return _new_adapter(hint)


def _new_adapter(hint: Any) -> TypeAdapter[Any] | None:
    if any(hint is unchecked for unchecked in _UNCHECKED):
        return None
    try:
        return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":  # a model has its own config
            return None
    except Exception:  # third-party code: the schema of a type
        return None
    try:
        return TypeAdapter(hint)
    except Exception:  # third-party code, as above
        return None


def _problem(detail: ErrorDetails) -> str:
    wanted = detail["msg"].removeprefix("Input should be ")
    if detail["type"] == "missing":
        from forge_cli.schema.json.problems import problem_at

        return problem_at(detail["loc"], "is missing")
    from forge_cli.schema.json.problems import problem_at, shown

    return problem_at(detail["loc"], f"must be {wanted}, not {shown(detail['input'])}")
