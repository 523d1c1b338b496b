"""Tool calls and their outcomes."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, ClassVar, Literal, NoReturn

from msgspec import Struct, StructMeta, field

from forge_cli.core.results import VALUE_LIMIT, ResultValue, Text, for_model
from forge_cli.core.text import cut
from forge_cli.core.wire import NESTING, JsonObject, is_too_deep

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

OutcomeStatus = Literal[
    "success", "error", "denied", "blocked", "invalid", "not_found", "interrupted", "timeout"
]


TOO_DEEP = "is nested too deeply"
_NESTED = "[" * (NESTING + 1) + "]" * (NESTING + 1)
"""A placeholder for args that are nested too deeply: it cannot be parsed for the same reason."""


class _BoundedArgs(StructMeta):
    """The constructor of calls; it replaces args that are nested too deeply for a record.

    It is a metaclass because model providers construct calls as well.
    """

    def __call__(
        cls,  # noqa: N805 - a metaclass
        id: str,
        name: str,
        args: JsonObject,
        unreadable: str | None = None,
        parent: str | None = None,
    ) -> Any:
        if is_too_deep(args):
            return super().__call__(id, name, {}, _NESTED, parent)
        return super().__call__(id, name, args, unreadable, parent)


class ToolCall(Struct, frozen=True, metaclass=_BoundedArgs):
    """A call that a model or a person requests."""

    off_wire: ClassVar = ("parent",)
    id: str = field(name="toolCallId")
    name: str = field(name="toolName")
    args: JsonObject
    unreadable: str | None = None
    """The text of the args if they could not be parsed; ``args`` is empty then."""
    parent: str | None = None
    """The id of the call whose tool makes this one; None for calls of the model or a person."""


def is_legal_id(call_id: str) -> bool:
    """Return True if every provider accepts the id."""
    return _LEGAL_ID.fullmatch(call_id) is not None


def call_identity(name: str, args: object) -> str:
    """Return a text that is equal for calls of the same tool with the same args."""
    return json.dumps([name, args], sort_keys=True, ensure_ascii=False)


def read_args(text: str) -> JsonObject:
    """Parse the args that a model wrote.

    Raise ValueError if they are not one JSON object with unique keys.
    """
    try:
        found = _decode(text)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except json.JSONDecodeError:
        raise ValueError("is not a JSON object") from None
    if is_too_deep(found):
        raise ValueError(TOO_DEEP)
    if not isinstance(found, dict):
        raise ValueError("is not a JSON object")
    return found


def _no_constant(name: str) -> NoReturn:
    # Python's json accepts NaN and Infinity, which strict parsers refuse.
    raise ValueError(f"has {name} in it, which is not JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> JsonObject:
    # json.loads would keep the last of several values, and the prompt would show only that one.
    found = dict(pairs)
    if len(found) < len(pairs):
        [(doubled, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"has the key '{doubled}' more than once")
    return found


_decode = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_each_once).decode


class Denial(Struct, frozen=True):
    """A denied request of a running call, such as a connection, and the reason."""

    reason: str
    by: str


class ToolOutcome(Struct, frozen=True):
    """The result of a call; every call gets exactly one."""

    call: ToolCall
    status: OutcomeStatus
    value: ResultValue
    error: str | None = None
    duration_ms: int = 0
    by: str | None = None
    denials: tuple[Denial, ...] = ()
    """Requests of the running call that were denied."""
    rule: str = ""
    """For a refusal: the rule and its place in a file, for people; the model does not see it."""
    traceback: str | None = None
    """The traceback of an unexpected exception, from the tool's own code on; not for the model."""

    @property
    def ok(self) -> bool:
        """True if the call succeeded."""
        return self.status == "success"

    def text(self) -> str:
        """Return the text that the model reads."""
        return for_model(self.value)

    @property
    def refusal(self) -> str:
        """The reason of a refusal, for people."""
        return f"{self.error or self.status}{self.rule}"

    @classmethod
    def failed(
        cls,
        call: ToolCall,
        status: OutcomeStatus,
        sentence: str,
        *,
        by: str | None = None,
        rule: str = "",
    ) -> ToolOutcome:
        """Return the outcome of a call that did not succeed; ``sentence`` is the reason."""
        kept = cut(sentence, VALUE_LIMIT)
        return cls(call, status, Text(kept), error=kept, by=by, rule=rule)
