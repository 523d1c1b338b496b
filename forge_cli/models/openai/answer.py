"""One answer of the model, put together from the chunks of a stream."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Literal

from forge_cli.core.calls import ToolCall, is_legal_id, read_args
from forge_cli.core.messages import Usage
from forge_cli.core.text import TextJoiner, mend
from forge_cli.core.wire import JsonObject

Stop = Literal["end", "tool_use", "max_tokens", "refusal"]
_STOPS: dict[str, Stop] = {"length": "max_tokens", "content_filter": "refusal"}
_BROKEN = frozenset({"abort", "error"})


@dataclass
class Slot:
    """A call as far as it has come."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        return mend("".join(self.pieces))

    def add(self, id: str, name: str, piece: str) -> None:
        self.id = self.id or id
        self.name = self.name or name
        self.pieces.append(piece)

    def is_other(self, id: str, name: str) -> bool:
        """Return True if a delta with the same index begins another call; Ollama numbers every call 0."""
        if id and self.id:
            return id != self.id
        return bool(name and self.name) and read_object(self.arguments) is not None


@dataclass
class ChatAnswer:
    """The answer so far; ``stop`` and the calls count once the stream has ended well."""

    finish: str | None = None
    usage: Usage = field(default_factory=Usage)
    refused: bool = False
    slots: list[Slot] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    _by_index: dict[int, Slot] = field(default_factory=dict)
    _joiner: TextJoiner = field(default_factory=TextJoiner)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def finished(self) -> bool:
        """Return True if the model has reported that it is done."""
        return self.finish is not None and self.finish not in _BROKEN

    @property
    def broken(self) -> bool:
        """Return True if the server has given up on it, or never begun."""
        return not (self.pieces or self.slots or self.finish) or self.finish in _BROKEN

    @property
    def stop(self) -> Stop:
        if self.refused:
            return "refusal"
        return _STOPS.get(self.finish or "", "tool_use" if self.slots else "end")

    def add(self, chunk: JsonObject) -> str:
        """Take in one chunk; returns the text that is new."""
        if isinstance(usage := chunk.get("usage"), dict):
            self.usage = read_usage(usage)
        choice = _choice(chunk)
        if finish := _text(choice.get("finish_reason")):
            self.finish = finish
        delta = _delta(choice)
        if not delta:
            return ""
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            self._add_call(_dict(call))
        refusal = _text(delta.get("refusal"))
        self.refused = self.refused or bool(refusal)
        said = _text(delta.get("content")) + refusal
        return self._add_text(said) if said else ""

    def calls(self, taken: Container[str]) -> list[ToolCall]:
        """The calls, each with an id that is its own; in an answer cut short only those that can be read."""
        found: list[ToolCall] = []
        for slot in self.slots:
            arguments = slot.arguments
            readable = _args(arguments)
            if self.stop == "refusal" or (self.stop == "max_tokens" and readable is None):
                continue
            unreadable = arguments if readable is None and arguments.strip() else None
            own = (
                is_legal_id(slot.id)
                and slot.id not in taken
                and slot.id not in {call.id for call in found}
            )
            found.append(
                ToolCall(slot.id if own else new_call_id(), slot.name, readable or {}, unreadable)
            )
        return found

    def _add_text(self, piece: str) -> str:
        new = self._joiner.add(piece)
        if new:
            self.pieces.append(new)
        return new

    def _add_call(self, call: JsonObject) -> None:
        function = _dict(call.get("function"))
        id = _text(call.get("id"))
        name = _text(function.get("name"))
        arguments = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = "" if arguments is None else json.dumps(arguments)
        if not (id or name or arguments):
            return
        index = call.get("index")
        slot = self._by_index.get(index) if isinstance(index, int) else self._unnumbered(id, name)
        if slot is None or slot.is_other(id, name):
            slot = Slot()
            self.slots.append(slot)
        if isinstance(index, int):
            self._by_index[index] = slot
        slot.add(id, name, arguments)

    def _unnumbered(self, id: str, name: str) -> Slot | None:
        """Without an index: the call of that id, or the last one when neither id nor name says that one begins."""
        if id:
            return next((slot for slot in self.slots if slot.id == id), None)
        return self.slots[-1] if self.slots and not name else None


def are_useful(chunks: Iterable[JsonObject]) -> bool:
    """Return True if one of these is more than a sign of life: it adds to an answer, or ends it."""
    return any(map(_is_useful, chunks))


def _is_useful(chunk: JsonObject) -> bool:
    return bool(_adds(chunk) or _choice(chunk).get("finish_reason") or chunk.get("usage"))


def is_done(chunk: JsonObject) -> bool:
    """Return True for the end of an answer and no more; some servers give a reason for the end with every piece."""
    return bool(_choice(chunk).get("finish_reason") and not _adds(chunk))


def _adds(chunk: JsonObject) -> bool:
    return any(value for name, value in _delta(_choice(chunk)).items() if name != "role")


def new_call_id() -> str:
    """Nine letters and digits, because Mistral's templates refuse any other id."""
    return token_hex(5)[:9]


def _args(text: str) -> JsonObject | None:
    try:
        return read_args(text)
    except ValueError:
        return None


def read_object(text: str) -> JsonObject | None:
    """The JSON object that the text is, or None."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_usage(usage: JsonObject) -> Usage:
    """Tokens as we count them: what was read from the cache is not counted again as input."""
    cached = _count(_dict(usage.get("prompt_tokens_details")).get("cached_tokens"))
    sent = _count(usage.get("prompt_tokens"))
    return Usage(
        max(0, sent - cached),
        _count(usage.get("completion_tokens")),
        cache_read_tokens=min(cached, sent),
    )


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


def _choice(chunk: JsonObject) -> JsonObject:
    choices = chunk.get("choices")
    return _dict(choices[0]) if isinstance(choices, list) and choices else {}


def _delta(choice: JsonObject) -> JsonObject:
    """The new part of it; all of an answer that is not a stream."""
    return _dict(choice.get("delta") or choice.get("message"))


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """Text as a string, or as a list of parts."""
    if isinstance(value, str):
        return value
    return (
        "".join([_text(_dict(part).get("text")) for part in value])
        if isinstance(value, list)
        else ""
    )
