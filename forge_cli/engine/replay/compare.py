"""A request to the model beside the recorded one: tools, system prompt, what was said, and the rest of the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from forge_cli.core.messages import Message, ModelRequest, ToolSpec
from forge_cli.engine.replay.drift import Drift, Likeness, other_spec, other_text, other_tools
from forge_cli.engine.replay.recording import RecordedTurn
from forge_cli.engine.turns.history import History
from forge_cli.sandbox.secrets import has_mark


@dataclass(frozen=True)
class Told:
    """System prompt and tools as they were recorded; they stand in a record only where they change."""

    system: str
    specs: tuple[ToolSpec, ...]

    @property
    def whole(self) -> bool:
        """Is it what the model was told, with no secret taken out?"""
        return not has_mark([self.system, *(spec.wire() for spec in self.specs)])


def differences(
    turn: RecordedTurn, told: Told | None, request: ModelRequest, came: AbstractSet[str], likeness: Likeness
) -> Iterator[Drift]:
    """Whatever differs, what matters most first; ``came`` are tools that may be there or not."""
    names = {tool.name for tool in request.tools}
    found = [other_tools(set(turn.tools) - came, names - came)]
    if told:
        if not likeness.same(told.system, request.system):
            found.append(other_text("request", "the system prompt differs", told.system, request.system))
        known = {spec.name: spec for spec in told.specs}
        found += [other_spec(known[tool.name], tool, likeness) for tool in request.tools if tool.name in known]
    found.append(_other_words(turn, request.messages, likeness))
    yield from filter(None, found)
    if history := _other_history(turn, told, request):
        yield history


def _other_words(turn: RecordedTurn, messages: Sequence[Message], likeness: Likeness) -> Drift | None:
    """What was said to the model since the turn before, the task first of all."""
    heard = _last_words(messages)[-len(turn.said) :] if turn.said else []
    if len(heard) < len(turn.said):
        return other_text("request", "the model is not told what it was told", turn.said[len(heard)].text, "")
    what = "the task differs" if turn.number == 1 else "the model is told something else"
    for before, now in zip(turn.said, heard, strict=True):
        if not likeness.same(before.text, now.text):
            return other_text("request", what, before.text, now.text)
        if before.attachments != now.attachments:
            names = [", ".join(file.name for file in each.attachments) or "(none)" for each in (before, now)]
            return Drift("request", "other files go along with the task", recorded=names[0], now=names[1])
    return None


def _last_words(messages: Sequence[Message]) -> list[Message]:
    """What was said last, by nobody but the user."""
    said: list[Message] = []
    for message in reversed(messages):
        if message.role != "user":
            break
        said.append(message)
    return said[::-1]


def _other_history(turn: RecordedTurn, told: Told | None, request: ModelRequest) -> Drift | None:
    """Whatever else is in a request; it is compared as a whole, so nothing tells where it differs."""
    digest = turn.request.request_digest if turn.request else None
    if not isinstance(request.messages, History) or digest is None or (told and not told.whole):
        return None
    system, tools = (told.system, told.specs) if told else (request.system, request.tools)
    if request.messages.digest(system, tools) == digest:
        return None
    return Drift("request", f"the {'history' if told else 'request'} differs, and the record does not say in what")
