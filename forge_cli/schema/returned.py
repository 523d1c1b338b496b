"""The check of a function's result against its return annotation."""

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
_MAX_PROBLEMS = 5
"""The most problems in a message; a list of a thousand invalid items has a thousand."""
_known: WeakKeyDictionary[Callable[..., Any], TypeAdapter[Any] | None] = WeakKeyDictionary()


def check_returned(tool: str, function: Callable[..., Any], value: Any) -> None:
    """Raise ToolError if a result does not match the function's return annotation.

    The value itself does not change. An annotation that pydantic cannot check is ignored.
    """
    hint = _return_hint(function)
    if isinstance(hint, type) and hint in type(value).__mro__:
        return  # includes a bool for int, which a strict check would refuse
    adapter = _adapter(function, hint)
    if adapter is None:
        return
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems = list(dict.fromkeys(_problem(detail) for detail in details[:_MAX_PROBLEMS]))
        if len(details) > _MAX_PROBLEMS:
            problems.append("and more")
        wanted = inspect.formatannotation(hint)
        if isinstance(hint, type) and not get_args(hint):
            wanted = hint.__name__
        raise ToolError(
            f"{tool} was called, but its result is not the declared {wanted}: {'; '.join(problems)}"
        ) from None
    except Exception:  # third-party code: a type that cannot be checked, such as a protocol
        return


def _return_hint(function: Callable[..., Any]) -> Any:
    try:
        hint = get_type_hints(function, include_extras=True).get("return", inspect.Signature.empty)
    except Exception:  # third-party code: an annotation that does not resolve
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
    except TypeError:  # a callable object that has no weak references
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
    from forge_cli.schema.json.problems import problem_at, shown

    if detail["type"] == "missing":
        return problem_at(detail["loc"], "is missing")
    wanted = detail["msg"].removeprefix("Input should be ")
    return problem_at(detail["loc"], f"must be {wanted}, not {shown(detail['input'])}")
