"""Drift: the first difference between a session and its recording, with both sides."""

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
MAX_WIDTH = 100
"""The most characters of one side of a difference."""
_WORDS = ("description", "title", "examples", "$comment")
"""Keys of a schema that only explain it."""
_MAPPINGS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keys of a schema whose values are mappings by name."""
_VALUES = ("default", "const", "enum")
"""Keys of a schema with possible inputs."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")


class Drift(ForgeError):
    """A session that differs from its recording."""

    exit_code = ExitCode.DRIFT

    def __init__(
        self, kind: DriftKind, sentence: str, *, recorded: str | None = None, now: str | None = None
    ) -> None:
        shown: list[str] = []
        if recorded is not None:
            shown.append(f"recorded: {recorded}")
        if now is not None:
            shown.append(f"now:      {now}")
        super().__init__(sentence, hint="\n  ".join(shown) or None)
        self.kind = kind
        self.recorded = recorded
        self.now = now
        self.turn = 0

    def at(self, where: Mark, turn: int) -> Drift:
        """Set the place in the recording, and return the drift."""
        self.where = where
        self.turn = turn
        place = f"drift in turn {turn}" if turn else "drift"
        self.message = f"{place}: {self.message}"
        return self

    def wire(self) -> JsonObject:
        """Return a JSON object."""
        return {
            "kind": self.kind,
            "turn": self.turn,
            "where": str(self.where) if self.where else None,
            "message": self.message,
            "recorded": self.recorded,
            "now": self.now,
        }


class Likeness(Struct, frozen=True):
    """Compares texts, ignoring the place of the workspace, times, and redacted secrets."""

    before: str
    """The workspace of the recorded session."""
    now: Path

    def same(self, recorded: str, now: str) -> bool:
        if recorded == now:
            return True
        plain = _timeless(recorded, self.before)
        other = _timeless(now, str(self.now))
        if plain == other:
            return True
        pieces = MARKS.split(plain)
        if len(pieces) == 1:
            return False
        # Any text may be in place of a redacted secret.
        pattern = ".*?".join(map(re.escape, pieces))
        return re.fullmatch(pattern, other, re.DOTALL) is not None


def _timeless(text: str, workspace: str) -> str:
    # The workspace "/" is in every path.
    if len(workspace) > 1:
        text = text.replace(workspace, "[workspace]")
    return _TIME.sub("[time]", text)


def other_tools(recorded: Iterable[str], now: Iterable[str]) -> Drift | None:
    """Return the drift for missing or new tools, with the likely new name of a missing one."""
    before = set(recorded)
    after = set(now)
    gone = sorted(before - after)
    new = sorted(after - before)
    if not gone and not new:
        return None
    changes: list[str] = []
    if gone:
        changes.append(f"{_quoted(gone)} {_verb(gone)} gone")
    if new:
        changes.append(f"{_quoted(new)} {_verb(new)} new")
    sentence = f"other tools are offered: {', '.join(changes)}"
    for name in gone:
        if found := nearest(name, new or after):
            sentence += f"; '{found}' is the nearest to '{name}'"
            break
    drift = Drift("tools", sentence)
    if any((forge_home() / "tools" / name).is_dir() for name in gone):
        flag = f"--home {forge_home()}"
        drift.hint = (
            f"your own executables are available with {flag}; a replay ignores them otherwise"
        )
    return drift


def _verb(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def other_text(kind: DriftKind, what: str, recorded: str, now: str) -> Drift:
    """Return the drift for a text, with both sides of the first difference."""
    old = recorded.split("\n")
    new = now.split("\n")
    index = _common_length(old, new)
    place = ""
    if max(len(old), len(new)) > 1:
        place = f" in line {index + 1}"
    before, after = _around(_line(old, index), _line(new, index))
    return Drift(kind, f"{what}{place}", recorded=before, now=after)


def _common_length(one: Sequence[str], other: Sequence[str]) -> int:
    shorter = min(len(one), len(other))
    for index in range(shorter):
        if one[index] != other[index]:
            return index
    return shorter


def _line(lines: Sequence[str], index: int) -> str | None:
    return lines[index] if index < len(lines) else None


def _around(one: str | None, other: str | None) -> tuple[str, str]:
    """Cut two lines to the part where they differ."""
    if one is None or other is None:
        return _cut(one, 0), _cut(other, 0)
    start = 0
    if max(len(one), len(other)) > MAX_WIDTH:
        # A third of the width shows what comes before the difference.
        start = max(0, _common_length(one, other) - MAX_WIDTH // 3)
    return _cut(one, start), _cut(other, start)


def _cut(line: str | None, start: int) -> str:
    if line is None:
        return "(it ends before)"
    shown = cut(line[start:], MAX_WIDTH, "end")
    if start:
        shown = f"...{shown}"
    return shown or "(nothing)"


def other_spec(recorded: ToolSpec, now: ToolSpec, likeness: Likeness) -> Drift | None:
    """Return the drift for a tool with another description or input schema.

    Descriptions of forge's own tools do not count.
    """
    name = now.name
    before = _without_feedback(recorded.description)
    after = _without_feedback(now.description)
    if now.own_words != "all" and not likeness.same(before, after):
        return other_text("request", f"the description of '{name}' differs", before, after)
    one = recorded.input_schema
    other = now.input_schema
    if now.own_words != "none":
        one = _without_words(one)
        other = _without_words(other)
    found = _first_difference(one, other)
    if found is None or likeness.same(json.dumps(one), json.dumps(other)):
        return None
    path, before, after = found
    place = f" at {'.'.join(path)}" if path else ""
    return Drift(
        "request", f"the input schema of '{name}' differs{place}", recorded=before, now=after
    )


def _without_feedback(description: str) -> str:
    """Return a description without people's feedback, which does not affect its work."""
    return description.partition(f"\n\n{FEEDBACK}")[0]


def _without_words(schema: Any) -> Any:
    """Return a schema without descriptions; a field named ``description`` stays."""
    if isinstance(schema, list):
        return [_without_words(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: JsonObject = {}
    for key, value in schema.items():
        if key in _MAPPINGS and isinstance(value, Mapping):
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
    if value is None:
        return "(nothing)"
    return _cut(json.dumps(value, ensure_ascii=False), 0)


def other_verdict(call: ToolCall, recorded: PastVerdict, now: Verdict) -> Drift | None:
    """Return the drift for another verdict, or for the same one by another rule.

    The rule's place is ignored.
    """
    if (recorded.verdict, recorded.rule) == (now.approval.value, now.rule):
        return None
    before = _reasons(recorded.verdict, recorded.rule, recorded.reason)
    after = _reasons(now.approval.value, now.rule, now.reason)
    what = "is judged by another rule"
    if recorded.verdict != now.approval.value:
        what = "is judged differently"
    return Drift("verdict", f"{described(call)} {what}", recorded=before, now=after)


def now_possible(call: ToolCall, refused: ToolResult, now: Verdict) -> Drift:
    """Return the drift for a call that could not run then, and now can."""
    before = f"{refused.status}: {refused.error or ''}"
    after = _reasons(now.approval.value, now.rule, now.reason)
    return Drift(
        "verdict", f"{described(call)} was refused, and now is not", recorded=before, now=after
    )


def _reasons(verdict: str, rule: str | None, reason: str) -> str:
    return _cut(f"{verdict}: {reason}" + (f" ({rule})" if rule else ""), 0)


def described(call: ToolCall) -> str:
    """Return a call as text, cut to the length that fits into a sentence."""
    given = ""
    if call.args:
        given = json.dumps(call.args, ensure_ascii=False)
    return f"{call.name} {cut(given, 60, 'end')}".rstrip()


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


class RecordedPrompt(Struct, frozen=True):
    """The system prompt and tools as recorded; a recording contains them only when they change."""

    system: str
    specs: tuple[ToolSpec, ...]

    @property
    def whole(self) -> bool:
        """True if no secret was redacted."""
        return not has_mark([self.system, *(spec.wire() for spec in self.specs)])


def differences(
    turn: RecordedTurn,
    told: RecordedPrompt | None,
    request: ModelRequest,
    came: AbstractSet[str],
    likeness: Likeness,
) -> Iterator[Drift]:
    """Yield all differences, the most important first; tools in ``came`` may be missing."""
    names = {tool.name for tool in request.tools}
    found = [other_tools(set(turn.tools) - came, names - came)]
    if told:
        if not likeness.same(told.system, request.system):
            found.append(
                other_text("request", "the system prompt differs", told.system, request.system)
            )
        known = {spec.name: spec for spec in told.specs}
        for tool in request.tools:
            if tool.name in known:
                found.append(other_spec(known[tool.name], tool, likeness))
    found.append(_other_messages(turn, request.messages, likeness))
    yield from filter(None, found)
    if history := _other_history(turn, told, request):
        yield history


def _other_messages(
    turn: RecordedTurn, messages: Sequence[Message], likeness: Likeness
) -> Drift | None:
    """Return the drift for the messages to the model since the last turn."""
    heard: list[Message] = []
    if turn.said:  # [-0:] would be all messages
        heard = _last_messages(messages)[-len(turn.said) :]
    if len(heard) < len(turn.said):
        missing = turn.said[len(heard)].text
        return other_text("request", "a message to the model is missing", missing, "")
    what = "the task differs" if turn.number == 1 else "a message to the model differs"
    for before, now in zip(turn.said, heard, strict=True):
        if not likeness.same(before.text, now.text):
            return other_text("request", what, before.text, now.text)
        if before.attachments != now.attachments:
            return Drift(
                "request",
                "other files are attached to the task",
                recorded=_attached(before),
                now=_attached(now),
            )
    return None


def _attached(message: Message) -> str:
    return ", ".join(file.name for file in message.attachments) or "(none)"


def _last_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the user's messages at the end."""
    said: list[Message] = []
    for message in reversed(messages):
        if message.role != "user":
            break
        said.append(message)
    return said[::-1]


def _other_history(
    turn: RecordedTurn, told: RecordedPrompt | None, request: ModelRequest
) -> Drift | None:
    """Return the drift for the rest of a request, compared by hash, so its place is unknown."""
    digest = None
    if turn.request:
        digest = turn.request.request_digest
    if not isinstance(request.messages, History) or digest is None or (told and not told.whole):
        return None
    system = told.system if told else request.system
    tools = told.specs if told else request.tools
    if request.messages.digest(system, tools) == digest:
        return None
    # Earlier versions of forge did not redact values because of the names of their keys.
    if request.messages.without_names().digest(system, tools) == digest:
        return None
    what = "history" if told else "request"
    return Drift("request", f"the {what} differs, but the recording has only its hash")
