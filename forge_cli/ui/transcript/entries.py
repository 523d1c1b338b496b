"""What a conversation consists of, read from the lines of a log, also of one that somebody has changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from forge_cli.core.results import Custom, Diff, FileContent, FileList, Json, ResultValue, Text, from_wire
from forge_cli.core.signature import JsonObject
from forge_cli.core.text import counted

DEEPEST = 10


@dataclass(frozen=True)
class Said:
    """Words of the user or of a worker; ``depth`` is 0 for the worker that was started."""

    who: str
    text: str
    files: tuple[str, ...] = ()
    depth: int = 0


@dataclass
class Called:
    """A call with everything that came of it."""

    tool: str
    args: Any
    depth: int = 0
    verdict: str = ""
    status: str = ""
    error: str | None = None
    value: ResultValue | None = None

    @property
    def shown(self) -> ResultValue | None:
        """The result, unless it says the same as the error."""
        return None if self.value is None or self.value.text() == self.error else self.value


@dataclass(frozen=True)
class Noted:
    """Something else that a reader should know."""

    text: str
    depth: int = 0


TranscriptEntry = Said | Called | Noted


@dataclass
class Transcript:
    """A whole conversation, and whose it is."""

    session: str = ""
    worker: str = ""
    model: str = ""
    workspace: str = ""
    started: str = ""
    entries: list[TranscriptEntry] = field(default_factory=list)


def read_transcript(lines: Iterable[JsonObject]) -> Transcript:
    reader = _Reader()
    for line in lines:
        reader.take(line)
    return reader.told


def local_time(time: Any, shape: str = "%Y-%m-%d %H:%M:%S %z") -> str:
    """A time of the record where the reader is."""
    try:
        return datetime.fromisoformat(time).astimezone().strftime(shape)
    except (TypeError, ValueError, OverflowError):
        return _text(time)


class _Reader:
    """Takes lines in order; a call is put where the model made it, and completed by what follows."""

    def __init__(self) -> None:
        self.told = Transcript()
        self.calls: dict[tuple[str, str], Called] = {}
        """By the task that a worker further down was given, and the call."""
        self.asked: dict[str, Called] = {}
        self.parents: dict[str, str] = {}

    def take(self, line: JsonObject) -> None:
        depth = min(max(line["depth"], 0), DEEPEST) if isinstance(line.get("depth"), int) else 0
        match line["type"]:
            case "sessionStart":
                self.start(line)
            case "message" if isinstance(line.get("message"), dict):
                self.message(line["message"], line, depth)
            case "toolStarted" if _key(line, line) not in self.calls:
                self.call(line, line, depth)
            case "approvalRequired" | "approvalResponse" | "approvalDecided":
                self.approval(line)
            case "toolResult":
                self.result(line, depth)
            case kind:
                if kind == "workerUpdate":
                    self.parents[_text(line.get("delegation"))] = _text(line.get("parent"))
                self.note(_note(kind, line), depth)

    def start(self, line: JsonObject) -> None:
        told = self.told
        model, place, when = _text(line.get("model")), _text(line.get("workspace")), local_time(line.get("time"))
        if not told.session:
            told.session, told.worker = _text(line.get("session")), _text(line.get("worker"))
            told.model, told.workspace, told.started = model, place, when
            return
        copy = f", as a copy of {line['forkedFrom']}" if "forkedFrom" in line else ""
        moved = f", in {place}" if place != told.workspace else ""
        other = f", with {model}" if model != told.model else ""
        told.model, told.workspace = model, place
        self.note(f"goes on at {when}{copy}{moved}{other}", 0)

    def message(self, message: JsonObject, line: JsonObject, depth: int) -> None:
        names = [_text(file.get("name")) for file in _dicts(message.get("attachments"))]
        self.told.entries.append(Said(self.who(message, line), _text(message.get("content")), tuple(names), depth))
        for call in _dicts(message.get("calls")):
            self.call(call, line, depth)

    def who(self, message: JsonObject, line: JsonObject) -> str:
        """The task of a worker further down comes from the one that called it."""
        role = _text(message.get("role"))
        if role == "assistant" or "summaryOf" in message:
            return _text(line.get("worker")) if role == "assistant" else "summary"
        return self.parents.get(_text(line.get("delegation")), role)

    def call(self, data: JsonObject, line: JsonObject, depth: int) -> Called:
        called = Called(_text(data.get("toolName")), data.get("args"), depth)
        self.calls[_key(data, line)] = called
        self.told.entries.append(called)
        return called

    def approval(self, line: JsonObject) -> None:
        request = _text(line.get("requestId"))
        called = self.calls.get(_key(line, line)) or self.asked.get(request)
        if called is None:
            return
        yes, place = "yes" if line.get("approved") is True else "no", f" ({line['where']})" if line.get("where") else ""
        match line["type"]:
            case "approvalRequired":
                self.asked[request] = called
                called.verdict = f"asks: {_text(line.get('reason'))}{place}; {request} waits for an answer"
            case "approvalResponse":
                note = f": {_text(line['note'])}" if line.get("note") else ""
                called.verdict = f"{called.verdict.partition('; approval_')[0]}; answered {yes}{note}"
            case _:
                settled = f"{_text(line.get('verdict'))} -> {yes} by {_text(line.get('by'))}"
                called.verdict = f"{settled}: {_text(line.get('reason'))}{place}"

    def result(self, line: JsonObject, depth: int) -> None:
        called = self.calls.get(_key(line, line)) or self.call(line, line, depth)
        called.status, called.value = _text(line.get("status")), drawable(line.get("value"))
        called.error = _text(line["error"]) if "error" in line else None

    def note(self, text: str | None, depth: int) -> None:
        if text:
            self.told.entries.append(Noted(text, depth))


def _key(data: JsonObject, line: JsonObject) -> tuple[str, str]:
    return _text(line.get("delegation")), _text(data.get("toolCallId"))


def _note(kind: str, line: JsonObject) -> str | None:
    match kind:
        case "status" if line.get("level") in ("warning", "error"):
            return f"{line['level']}: {_text(line.get('message'))}"
        case "interrupt":
            return _text(line.get("reason"))
        case "inputPrompt":
            return f"asks: {_text(line.get('prompt'))}"
        case "userInput":
            return f"answers: {_text(line.get('content'))}"
        case "workerUpdate":
            why = f": {_text(line['error'])}" if "error" in line else ""
            return f"{_text(line.get('worker'))} {_text(line.get('status'))}{why}"
        case "contextUsage" if line.get("elided"):
            return f"room was made: the results of {len(line['elided'])} calls were taken out of the history"
        case "contextUsage" if line.get("summarised"):
            return f"room was made: a summary stands for {line['summarised']} messages from here on"
        case "sessionEnd" if isinstance(line.get("result"), dict):
            return _ending(line["result"])
        case _:
            return None


def _ending(result: JsonObject) -> str:
    status, error = _text(result.get("status")), _text(result.get("error")).partition("\n")[0]
    counts = f"{_counted(result.get('turns'), 'turn')}, {_counted(result.get('tool_calls'), 'call')}"
    return f"{status}: {counts}" + (f"; {error.removeprefix(f'{status}: ')}" if error else "")


def _counted(number: Any, what: str) -> str:
    return counted(number, what) if isinstance(number, int | float) else f"? {what}s"


def drawable(data: Any) -> ResultValue:
    """A result that can be drawn; whatever else stands in its place is shown as it is."""
    match from_wire(data):
        case Text(content=str()) | FileContent(content=str()) | Json() | Custom() as value:
            return value
        case Diff(path=str(), original=str() | None, modified=str()) as value:
            return value
        case FileList(files=files, count=int()) as value if all(isinstance(name, str) for name in files):
            return value
        case _:
            return Json(data)


def _dicts(value: Any) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return "" if value is None else str(value)
