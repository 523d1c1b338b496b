"""One answer of the model, assembled from the chunks of a stream."""

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
    """A call, as far as it has arrived."""

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
        """Return True if a delta begins another call; Ollama gives every call the index 0."""
        if id and self.id:
            return id != self.id
        return bool(name and self.name) and read_object(self.arguments) is not None


@dataclass
class ChatAnswer:
    """The answer so far; ``stop`` and the calls are final once the stream has ended well."""

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
        """True if the model has reported that it is done."""
        return self.finish is not None and self.finish not in _BROKEN

    @property
    def broken(self) -> bool:
        """True if the server has given up, or never begun."""
        return not (self.pieces or self.slots or self.finish) or self.finish in _BROKEN

    @property
    def stop(self) -> Stop:
        if self.refused:
            return "refusal"
        return _STOPS.get(self.finish or "", "tool_use" if self.slots else "end")

    def add(self, chunk: JsonObject) -> str:
        """Add one chunk, and return the text that is new."""
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
        if refusal:
            self.refused = True
        said = _text(delta.get("content")) + refusal
        return self._add_text(said) if said else ""

    def calls(self, taken: Container[str]) -> list[ToolCall]:
        """Return the calls with unique IDs; of an answer that was cut short, the readable ones."""
        found: list[ToolCall] = []
        for slot in self.slots:
            arguments = slot.arguments
            readable = _args(arguments)
            if self.stop == "refusal" or (self.stop == "max_tokens" and readable is None):
                continue
            unreadable = None
            if readable is None and arguments.strip():
                unreadable = arguments
            used = {call.id for call in found}
            call_id = slot.id
            if not is_legal_id(call_id) or call_id in taken or call_id in used:
                call_id = new_call_id()
            found.append(ToolCall(call_id, slot.name, readable or {}, unreadable))
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
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):  # some servers send an object instead of its text
            arguments = json.dumps(arguments)
        if not (id or name or arguments):
            return
        index = call.get("index")
        if isinstance(index, int):
            slot = self._by_index.get(index)
        else:
            slot = self._unnumbered(id, name)
        if slot is None or slot.is_other(id, name):
            slot = Slot()
            self.slots.append(slot)
        if isinstance(index, int):
            self._by_index[index] = slot
        slot.add(id, name, arguments)

    def _unnumbered(self, id: str, name: str) -> Slot | None:
        """Return the call of a delta without an index; None if the delta begins a call."""
        if id:
            return next((slot for slot in self.slots if slot.id == id), None)
        if self.slots and not name:
            return self.slots[-1]
        return None


def are_useful(chunks: Iterable[JsonObject]) -> bool:
    """Return True if one of these adds to an answer or ends it, unlike a keep-alive."""
    return any(map(_is_useful, chunks))


def _is_useful(chunk: JsonObject) -> bool:
    return bool(_adds(chunk) or _choice(chunk).get("finish_reason") or chunk.get("usage"))


def is_done(chunk: JsonObject) -> bool:
    """Return True for the end of an answer; some servers give a finish reason with each piece."""
    return bool(_choice(chunk).get("finish_reason") and not _adds(chunk))


def _adds(chunk: JsonObject) -> bool:
    return any(value for name, value in _delta(_choice(chunk)).items() if name != "role")


def new_call_id() -> str:
    """Return a new ID of a call."""
    # nine letters and digits, because Mistral's templates refuse other IDs
    return token_hex(5)[:9]


def _args(text: str) -> JsonObject | None:
    try:
        return read_args(text)
    except ValueError:
        return None


def read_object(text: str) -> JsonObject | None:
    """Return the JSON object in the text, or None."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_usage(usage: JsonObject) -> Usage:
    """Return the token counts; tokens from the cache do not count as input again."""
    cached = _count(_dict(usage.get("prompt_tokens_details")).get("cached_tokens"))
    sent = _count(usage.get("prompt_tokens"))
    return Usage(
        max(0, sent - cached),
        _count(usage.get("completion_tokens")),
        cache_read_tokens=min(cached, sent),
    )


def _count(value: Any) -> int:
    # By the exact type, because True and False are ints.
    if type(value) is int and value > 0:
        return value
    return 0


def _choice(chunk: JsonObject) -> JsonObject:
    choices = chunk.get("choices")
    if isinstance(choices, list) and choices:
        return _dict(choices[0])
    return {}


def _delta(choice: JsonObject) -> JsonObject:
    # an answer that is not a stream has a whole message instead
    return _dict(choice.get("delta") or choice.get("message"))


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    # content may be a string, or a list of parts
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join([_text(_dict(part).get("text")) for part in value])
    return ""
