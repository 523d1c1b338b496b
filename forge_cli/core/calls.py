"""Calls and their outcomes: what a model or a person asks for, and the one result that every call gets."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, ClassVar, Literal, NoReturn

from msgspec import Struct, field
from msgspec.structs import force_setattr

from forge_cli.core.results import VALUE_LIMIT, ResultValue, Text, for_model
from forge_cli.core.text import cut
from forge_cli.core.wire import NESTING, JsonObject, is_too_deep

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

OutcomeStatus = Literal[
    "success", "error", "denied", "blocked", "invalid", "not_found", "interrupted", "timeout"
]


class ToolCall(Struct, frozen=True):
    """A call that a model or a person asks for; ``unreadable`` is the text of its args where they could not be read."""

    off_wire: ClassVar = ("parent",)
    id: str = field(name="toolCallId")
    name: str = field(name="toolName")
    args: JsonObject
    unreadable: str | None = None
    parent: str | None = None
    """The call whose tool makes this one; None where the model or a person does."""

    def __post_init__(self) -> None:
        if is_too_deep(self.args):  # no record could hold them
            force_setattr(self, "args", {})
            force_setattr(self, "unreadable", _NESTED)


def is_legal_id(call_id: str) -> bool:
    """Return True if every provider accepts the id."""
    return _LEGAL_ID.fullmatch(call_id) is not None


def call_identity(name: str, args: object) -> str:
    """The same tool with the same args; the call's id does not count."""
    return json.dumps([name, args], sort_keys=True, ensure_ascii=False)


TOO_DEEP = "is nested too deeply"
_NESTED = "[" * (NESTING + 1) + "]" * (NESTING + 1)
"""Stands for such args, and is refused for the same reason."""


def read_args(text: str) -> JsonObject:
    """The args that a model wrote; a ValueError says why they are not one JSON object whose keys are all different."""
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
    raise ValueError(f"has {name} in it, which is not JSON")


def _each_once(pairs: list[tuple[str, Any]]) -> JsonObject:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(doubled, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"has the key '{doubled}' more than once")
    return found


_decode = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_each_once).decode


class Denial(Struct, frozen=True):
    """Something that a call wanted while it ran, such as a connection, and why it did not get it."""

    reason: str
    by: str


class ToolOutcome(Struct, frozen=True):
    """The one result that every call gets."""

    call: ToolCall
    status: OutcomeStatus
    value: ResultValue
    error: str | None = None
    duration_ms: int = 0
    by: str | None = None
    denials: tuple[Denial, ...] = ()
    """Denials of what the call itself reached for while it ran."""
    rule: str = ""
    """Of a refusal, the rule behind it and its place in a file, for people; the model does not read it."""
    traceback: str | None = None
    """Of an exception that is not a ToolError, from the tool's own code on; the model does not read it."""

    @property
    def ok(self) -> bool:
        """Did the call succeed?"""
        return self.status == "success"

    def text(self) -> str:
        """The text that the model reads."""
        return for_model(self.value)

    @property
    def refusal(self) -> str:
        """Why it was refused, for people."""
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
        """The outcome of a call that did not succeed, with the sentence that says why."""
        kept = cut(sentence, VALUE_LIMIT)
        return cls(call, status, Text(kept), error=kept, by=by, rule=rule)
