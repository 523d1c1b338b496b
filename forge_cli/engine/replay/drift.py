"""Drift: the first difference between a session and its record, as a sentence with what was and what is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from forge_cli.core.approval import Verdict
from forge_cli.core.calls import ToolCall
from forge_cli.core.errors import ExitCode, ForgeError, Mark
from forge_cli.core.events import ToolResult
from forge_cli.core.messages import Message, ModelRequest, ToolSpec
from forge_cli.core.phrases import FEEDBACK, MARKS, has_mark
from forge_cli.core.text import cut, nearest
from forge_cli.core.wire import JsonObject
from forge_cli.engine.replay.recording import RecordedTurn
from forge_cli.engine.turns.history import History
from forge_cli.files.home import forge_home
from forge_cli.record.calls import PastVerdict

DriftKind = Literal["tools", "request", "verdict", "result", "turns"]
WIDTH = 100
_WORDS = ("description", "title", "examples", "$comment")
_NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keys of a schema under which names stand."""
_VALUES = ("default", "const", "enum")
"""Keys under which stands what an input may be."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


class Drift(ForgeError):
    """A session went another way than its record says."""

    exit_code = ExitCode.DRIFT

    def __init__(
        self, kind: DriftKind, sentence: str, *, recorded: str | None = None, now: str | None = None
    ) -> None:
        shown = [
            (name, text)
            for name, text in (("recorded: ", recorded), ("now:      ", now))
            if text is not None
        ]
        hint = "\n  ".join(f"{name}{text}" for name, text in shown)
        super().__init__(sentence, hint=hint or None)
        self.kind, self.recorded, self.now, self.turn = kind, recorded, now, 0

    def at(self, where: Mark, turn: int) -> Drift:
        """The same drift with its place in the record."""
        self.where, self.turn = where, turn
        self.message = f"drift in turn {turn}: {self.message}" if turn else f"drift: {self.message}"
        return self

    def wire(self) -> JsonObject:
        """As a JSON object."""
        return {
            "kind": self.kind,
            "turn": self.turn,
            "where": str(self.where) if self.where else None,
            "message": self.message,
            "recorded": self.recorded,
            "now": self.now,
        }


class Likeness(Struct, frozen=True):
    """Compares two texts: folders may lie elsewhere, times differ, a secret may be known here."""

    before: str
    """The folder that was worked in when the session was recorded."""
    now: Path

    def same(self, recorded: str, now: str) -> bool:
        if recorded == now:
            return True
        plain, other = _timeless(recorded, self.before), _timeless(now, str(self.now))
        if plain == other:
            return True
        pieces = MARKS.split(plain)
        return (
            len(pieces) > 1
            and re.fullmatch(".*?".join(map(re.escape, pieces)), other, re.DOTALL) is not None
        )


def _timeless(text: str, workspace: str) -> str:
    return _TIME.sub(
        "[time]", text.replace(workspace, "[workspace]") if len(workspace) > 1 else text
    )


def other_tools(recorded: Iterable[str], now: Iterable[str]) -> Drift | None:
    """Tools that are gone or new; one that is gone may have another name now."""
    before = set(recorded)
    after = set(now)
    gone = sorted(before - after)
    new = sorted(after - before)
    if not gone and not new:
        return None
    told: list[str] = []
    if gone:
        told.append(f"{_quoted(gone)} {'is' if len(gone) == 1 else 'are'} gone")
    if new:
        told.append(f"{_quoted(new)} {'is' if len(new) == 1 else 'are'} new")
    near = [
        f"'{found}' is the nearest to '{name}'"
        for name in gone
        if (found := nearest(name, new or after))
    ]
    drift = Drift("tools", "; ".join([f"other tools are offered: {', '.join(told)}", *near[:1]]))
    if any((forge_home() / "tools" / name).is_dir() for name in gone):
        drift.hint = f"programs of yours are there with --home {forge_home()}; without it that folder counts as empty"
    return drift


def other_text(kind: DriftKind, what: str, recorded: str, now: str) -> Drift:
    """A text that differs, shown where it first does."""
    old, new = recorded.split("\n"), now.split("\n")
    pairs = zip(old, new, strict=False)
    index = next(
        (number for number, (one, other) in enumerate(pairs) if one != other),
        min(len(old), len(new)),
    )
    place = f" in line {index + 1}" if max(len(old), len(new)) > 1 else ""
    before, after = _around(_line(old, index), _line(new, index))
    return Drift(kind, f"{what}{place}", recorded=before, now=after)


def _line(lines: Sequence[str], index: int) -> str | None:
    return lines[index] if index < len(lines) else None


def _around(one: str | None, other: str | None) -> tuple[str, str]:
    """Both lines, cut to where they differ."""
    if one is None or other is None:
        return _cut(one, 0), _cut(other, 0)
    pairs = enumerate(zip(one, other, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))
    start = max(0, same - WIDTH // 3) if max(len(one), len(other)) > WIDTH else 0
    return _cut(one, start), _cut(other, start)


def _cut(line: str | None, start: int) -> str:
    if line is None:
        return "(it ends before)"
    return ("..." if start else "") + cut(line[start:], WIDTH, "end") or "(nothing)"


def other_spec(recorded: ToolSpec, now: ToolSpec, likeness: Likeness) -> Drift | None:
    """A tool that is described differently, or wants other input; how forge describes its own does not count."""
    name = now.name
    before, after = _without_feedback(recorded.description), _without_feedback(now.description)
    if now.own_words != "all" and not likeness.same(before, after):
        return other_text("request", f"the description of '{name}' differs", before, after)
    one, other = recorded.input_schema, now.input_schema
    if now.own_words != "none":
        one, other = _without_words(one), _without_words(other)
    found = _first_difference(one, other)
    if found is None or likeness.same(json.dumps(one), json.dumps(other)):
        return None
    path, before, after = found
    place = f" at {'.'.join(path)}" if path else ""
    return Drift(
        "request", f"the input schema of '{name}' differs{place}", recorded=before, now=after
    )


def _without_feedback(description: str) -> str:
    """A description without what people say of the tool, which says nothing of its work."""
    return description.partition(f"\n\n{FEEDBACK}")[0]


def _without_words(schema: Any) -> Any:
    """A schema without what it says to a reader; a field that is called ``description`` is none of that."""
    if isinstance(schema, list):
        return [_without_words(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: JsonObject = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            found[key] = {name: _without_words(each) for name, each in value.items()}
        elif key not in _WORDS:
            found[key] = value if key in _VALUES else _without_words(value)
    return found


def _first_difference(
    one: Any, other: Any, path: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], str, str] | None:
    if one == other:
        return None
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in one or key not in other:
                return (*path, key), _shown(one.get(key)), _shown(other.get(key))
            if found := _first_difference(one[key], other[key], (*path, key)):
                return found
    return path, _shown(one), _shown(other)


def _shown(value: Any) -> str:
    return "(nothing)" if value is None else _cut(json.dumps(value, ensure_ascii=False), 0)


def other_verdict(call: ToolCall, recorded: PastVerdict, now: Verdict) -> Drift | None:
    """Another verdict, or the same one by another rule; where the rule stands does not matter."""
    if (recorded.verdict, recorded.rule) == (now.approval.value, now.rule):
        return None
    before = _reasons(recorded.verdict, recorded.rule, recorded.reason)
    after = _reasons(now.approval.value, now.rule, now.reason)
    what = (
        "judged differently" if recorded.verdict != now.approval.value else "judged by another rule"
    )
    return Drift("verdict", f"{described(call)} is {what}", recorded=before, now=after)


def now_possible(call: ToolCall, refused: ToolResult, now: Verdict) -> Drift:
    """A call that could not be made at all, and now could."""
    before = f"{refused.status}: {refused.error or ''}"
    after = _reasons(now.approval.value, now.rule, now.reason)
    return Drift(
        "verdict", f"{described(call)} was refused, and now is not", recorded=before, now=after
    )


def _reasons(verdict: str, rule: str | None, reason: str) -> str:
    return _cut(f"{verdict}: {reason}" + (f" ({rule})" if rule else ""), 0)


def described(call: ToolCall) -> str:
    given = json.dumps(call.args, ensure_ascii=False) if call.args else ""
    return f"{call.name} {cut(given, 60, 'end')}".rstrip()


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


class Told(Struct, frozen=True):
    """System prompt and tools as they were recorded; they stand in a record only where they change."""

    system: str
    specs: tuple[ToolSpec, ...]

    @property
    def whole(self) -> bool:
        """Is it what the model was told, with no secret taken out?"""
        return not has_mark([self.system, *(spec.wire() for spec in self.specs)])


def differences(
    turn: RecordedTurn,
    told: Told | None,
    request: ModelRequest,
    came: AbstractSet[str],
    likeness: Likeness,
) -> Iterator[Drift]:
    """All differences, the most important first; ``came`` are tools that may be there or not."""
    names = {tool.name for tool in request.tools}
    found = [other_tools(set(turn.tools) - came, names - came)]
    if told:
        if not likeness.same(told.system, request.system):
            found.append(
                other_text("request", "the system prompt differs", told.system, request.system)
            )
        known = {spec.name: spec for spec in told.specs}
        found += [
            other_spec(known[tool.name], tool, likeness)
            for tool in request.tools
            if tool.name in known
        ]
    found.append(_other_words(turn, request.messages, likeness))
    yield from filter(None, found)
    if history := _other_history(turn, told, request):
        yield history


def _other_words(
    turn: RecordedTurn, messages: Sequence[Message], likeness: Likeness
) -> Drift | None:
    """The messages to the model since the turn before, the task first of all."""
    heard = _last_words(messages)[-len(turn.said) :] if turn.said else []
    if len(heard) < len(turn.said):
        return other_text(
            "request", "the model is not told what it was told", turn.said[len(heard)].text, ""
        )
    what = "the task differs" if turn.number == 1 else "the model is told something else"
    for before, now in zip(turn.said, heard, strict=True):
        if not likeness.same(before.text, now.text):
            return other_text("request", what, before.text, now.text)
        if before.attachments != now.attachments:
            names = [
                ", ".join(file.name for file in each.attachments) or "(none)"
                for each in (before, now)
            ]
            return Drift(
                "request", "other files go along with the task", recorded=names[0], now=names[1]
            )
    return None


def _last_words(messages: Sequence[Message]) -> list[Message]:
    """The last words of the user."""
    said: list[Message] = []
    for message in reversed(messages):
        if message.role != "user":
            break
        said.append(message)
    return said[::-1]


def _other_history(turn: RecordedTurn, told: Told | None, request: ModelRequest) -> Drift | None:
    """The rest of a request, compared as a whole, so nothing tells where it differs."""
    digest = turn.request.request_digest if turn.request else None
    if not isinstance(request.messages, History) or digest is None or (told and not told.whole):
        return None
    system, tools = (told.system, told.specs) if told else (request.system, request.tools)
    if request.messages.digest(system, tools) == digest:
        return None
    if request.messages.without_names().digest(system, tools) == digest:
        return None  # it was recorded by an older forge
    return Drift(
        "request",
        f"the {'history' if told else 'request'} differs, and the record does not say in what",
    )
