"""Conversion of record lines to spans and counters, by the conventions for generative AI."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

Line = Mapping[str, Any]
Attributes = dict[str, Any]
PROVIDERS = {"bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai", "foundry": "azure.ai.inference"}
"""Providers with another name in the conventions."""
DECISION = "forge.decision"
LONGEST = 20_000
"""Characters of a text attribute."""


class Meters:
    """The counters of a process."""

    def __init__(self, meter: Meter, lost: Callable[[], int]) -> None:
        def observe(options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(lost())]

        self.tokens = meter.create_counter(
            "forge.tokens", "{token}", "Tokens, by gen_ai.token.type."
        )
        self.cost = meter.create_counter("forge.cost", "USD", "Cost of turns whose price is known.")
        self.questions = meter.create_counter(
            "forge.questions", "{question}", "Calls that asked for approval."
        )
        meter.create_observable_counter(
            "forge.lost_spans", [observe], "{span}", "Spans that did not arrive."
        )


@dataclass
class Task:
    """A task of a worker."""

    span: Span
    attributes: Attributes
    """Attributes of all its spans."""
    chat: Span | None = None
    said: list[Attributes] = field(default_factory=list)
    """Messages that the model has not read yet."""
    tokens: Attributes = field(default_factory=dict)


class SessionSpans:
    """The spans of one session: workers, turns, calls and child workers."""

    def __init__(self, session: str, tracer: Tracer, meters: Meters, *, content: bool) -> None:
        self._session, self._tracer, self._meters, self._content = session, tracer, meters, content
        self._models: dict[str, str] = {}
        """The models by delegation; the key of the root worker is the empty string."""
        self._tasks: dict[str, Task] = {}
        self._calls: dict[tuple[str, str], Span] = {}
        self._given: tuple[int, str] | None = None
        """The time and the text of the root worker's latest task."""
        self._last = 0
        """The time of the last line that is no message; the next message of the person is a task.
        """

    def take(self, line: Line) -> None:
        """Handle the next line; ignore lines without a meaning here."""
        now, who = _nanoseconds(line["time"]), str(line.get("delegation", ""))
        match line["type"]:
            case "sessionStart":
                self._models[""] = line["model"]
                if "resumed" in line:
                    self._begin_task(line, who, now, None)
            case "sessionUpdate":
                self._models[""] = line.get("model") or self._models.get("", "")
                self._count(line, line.get("usage") or {})
            case "message":
                self._hear(line, who, now)
            case "turnStart":
                self._begin_turn(line, who, now)
            case "turnEnd":
                self._end_turn(line, who, now)
            case "toolStarted":
                self._begin_call(line, who, now)
            case "approvalRequired":
                self._meters.questions.add(
                    1, {**_worker_name(line), "gen_ai.tool.name": line["toolName"]}
                )
            case "approvalDecided":
                self._decide(line, who, now)
            case "toolResult":
                self._end_call(line, who, now)
            case "workerUpdate":
                self._update_worker(line, who, now)
            case "sessionEnd":
                self._end_session(line, now)
        if line["type"] not in ("message", "userInput"):
            self._last = now

    def _begin_task(self, line: Line, who: str, now: int, parent: Span | None) -> Task:
        model = self._models.get(who, self._models.get("", ""))
        attributes = {
            **_worker_name(line),
            **_model(model),
            "gen_ai.conversation.id": self._session,
        }
        name = f"invoke_agent {line['worker']}"
        span = self._begin("invoke_agent", name, attributes, now, parent)
        task = self._tasks[who] = Task(span, attributes)
        return task

    def _begin(
        self,
        operation: str,
        name: str,
        attributes: Attributes,
        now: int,
        parent: Span | None,
        kind: SpanKind | None = None,
    ) -> Span:
        context: Context | None = set_span_in_context(parent) if parent else None
        given = {"gen_ai.operation.name": operation, **attributes}
        kind = kind or SpanKind.INTERNAL
        return self._tracer.start_span(name, context, kind, given, start_time=now)

    def _hear(self, line: Line, who: str, now: int) -> None:
        message = line["message"]
        if message["role"] == "user" and not who:
            self._given = now, message["content"]
        task = self._tasks.get(who)
        if task is None or not self._content:
            return
        parts: list[Attributes] = []
        if message["content"]:
            parts.append({"type": "text", "content": _bounded(message["content"])})
        for call in message.get("calls", ()):
            made = {"id": call["toolCallId"], "name": call["toolName"], "arguments": call["args"]}
            parts.append({"type": "tool_call", **made})
        said = {"role": message["role"], "parts": parts}
        if message["role"] == "user":
            task.said.append(said)
        elif task.chat:
            task.chat.set_attribute("gen_ai.output.messages", _text([said]))

    def _begin_turn(self, line: Line, who: str, now: int) -> None:
        self._models[who] = line.get("model") or self._models.get(who, "")
        task = self._tasks.get(who)
        if task and not who and line["turn"] == 1 and (task.tokens or task.chat):
            # The task before this one; without an answer to its last request, it failed.
            status = "failed" if task.chat else "completed"
            self._end_task(who, self._last, status)
            task = None
        if task is None:
            since, said = self._given or (now, "")
            task = self._begin_task(line, who, since, None)
            task.said = []
            if said:
                parts = [{"type": "text", "content": _bounded(said)}]
                task.said.append({"role": "user", "parts": parts})
            if self._content and task.said:
                task.span.set_attribute("gen_ai.input.messages", _text(task.said))
        task.attributes |= _model(self._models[who])
        task.span.set_attributes(_model(self._models[who]))
        if task.chat:
            _fail(task.chat, "no_answer", now)
        model = task.attributes["gen_ai.request.model"]
        task.chat = self._begin(
            "chat", f"chat {model}", task.attributes, now, task.span, SpanKind.CLIENT
        )
        if self._content:
            task.chat.set_attribute("gen_ai.input.messages", _text(task.said))
            if line.get("system"):
                instructions = [{"type": "text", "content": _bounded(line["system"])}]
                task.chat.set_attribute("gen_ai.system_instructions", _text(instructions))
        task.said = []

    def _end_turn(self, line: Line, who: str, now: int) -> None:
        usage = line["usage"]
        self._count(line, usage)
        if cost := line.get("cost"):
            self._meters.cost.add(cost, {**_worker_name(line), **_model(self._models.get(who, ""))})
        task = self._tasks.get(who)
        if task is None or task.chat is None:
            return
        counts = _usage(usage)
        for key, count in counts.items():
            task.tokens[key] = task.tokens.get(key, 0) + count
        more = {"forge.cost": line["cost"]} if "cost" in line else {}
        task.chat.set_attributes(
            {**counts, **more, "gen_ai.response.finish_reasons": [line["stop"]]}
        )
        task.chat.end(now)
        task.chat = None

    def _count(self, line: Line, usage: Mapping[str, int]) -> None:
        who = str(line.get("delegation", ""))
        common = {**_worker_name(line), **_model(self._models.get(who, ""))}
        kinds = {"input": "inputTokens", "output": "outputTokens"}
        kinds |= {"cache_read": "cacheReadTokens", "cache_creation": "cacheWriteTokens"}
        for kind, key in kinds.items():
            if usage.get(key):
                self._meters.tokens.add(usage[key], {**common, "gen_ai.token.type": kind})

    def _begin_call(self, line: Line, who: str, now: int) -> None:
        task, tool = self._tasks.get(who), line["toolName"]
        above = self._calls.get((who, line.get("parentCallId", ""))) or (
            task.span if task else None
        )
        attributes = {**_worker_name(line), "gen_ai.conversation.id": self._session}
        attributes |= {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": line["toolCallId"]}
        attributes["gen_ai.tool.type"] = "function"
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = _text(line["args"])
        call = self._begin("execute_tool", f"execute_tool {tool}", attributes, now, above)
        self._calls[who, line["toolCallId"]] = call

    def _decide(self, line: Line, who: str, now: int) -> None:
        """Add a decision to the span of its call, or of the worker if the call has no span."""
        task = self._tasks.get(who)
        span = self._calls.get((who, line["toolCallId"])) or (task.span if task else None)
        if span is None:
            return
        keys = [
            "verdict",
            "approved",
            "by",
            "rule",
            "where",
            "fingerprint",
            "cached",
            "caller",
            "via",
        ]
        told = {f"forge.{key}": line[key] for key in keys if line.get(key) is not None}
        told["gen_ai.tool.call.id"] = line["toolCallId"]
        if self._content:
            told["forge.reason"] = _bounded(line["reason"])
        span.add_event(DECISION, told, now)

    def _end_call(self, line: Line, who: str, now: int) -> None:
        call = self._calls.pop((who, line["toolCallId"]), None)
        task = self._tasks.get(who)
        if self._content and task:
            parts = [
                {
                    "type": "tool_call_response",
                    "id": line["toolCallId"],
                    "result": _bounded(_text(line["value"])),
                }
            ]
            task.said.append({"role": "tool", "parts": parts})
        if call is None:
            return
        call.set_attribute("forge.status", line["status"])
        if self._content:
            call.set_attribute("gen_ai.tool.call.result", _text(line["value"]))
        if line["status"] == "success":
            call.end(now)
        else:
            _fail(call, line["status"], now)

    def _update_worker(self, line: Line, who: str, now: int) -> None:
        if line["status"] in ("started", "resumed"):
            above = str(line.get("within", ""))
            self._models[who] = self._models.get(above, "")
            self._begin_task(line, who, now, self._calls.get((above, line["toolCallId"])))
        else:
            self._end_task(who, now, line["status"])

    def _end_task(self, who: str, now: int, status: str = "completed") -> None:
        task = self._tasks.pop(who, None)
        if task is None:
            return
        if task.chat:
            _fail(task.chat, status if status != "completed" else "no_answer", now)
        task.span.set_attributes({**task.tokens, "forge.status": status})
        if status == "completed":
            task.span.end(now)
        else:
            _fail(task.span, status, now)

    def _end_session(self, line: Line, now: int) -> None:
        for call in self._calls.values():
            _fail(call, "interrupted", now)
        status = str(line["result"].get("status", "completed"))
        # Child workers end before their parents, which began first.
        for who in reversed(list(self._tasks)):
            self._end_task(who, now, status)


def _fail(span: Span, why: str, now: int) -> None:
    span.set_attribute("error.type", why)
    span.set_status(Status(StatusCode.ERROR))
    span.end(now)


def _worker_name(line: Line) -> Attributes:
    return {"gen_ai.agent.name": line["worker"]}


def _model(model: str) -> Attributes:
    """Return the provider and the model of ``PROVIDER:MODEL``."""
    provider, _, name = model.partition(":")
    return {
        "gen_ai.provider.name": PROVIDERS.get(provider, provider),
        "gen_ai.request.model": name or provider,
    }


def _usage(usage: Mapping[str, int]) -> Attributes:
    """Return token counts by the conventions, which include the cache in the input."""
    read, written = usage.get("cacheReadTokens", 0), usage.get("cacheWriteTokens", 0)
    counts = {"gen_ai.usage.input_tokens": usage.get("inputTokens", 0) + read + written}
    counts["gen_ai.usage.output_tokens"] = usage.get("outputTokens", 0)
    more = {
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
    }
    return counts | {key: count for key, count in more.items() if count}


def _nanoseconds(time: str) -> int:
    # A record has milliseconds, and a float is too coarse for nanoseconds.
    return round(datetime.fromisoformat(time).timestamp() * 1000) * 1_000_000


def _text(value: Any) -> str:
    return _bounded(json.dumps(value, ensure_ascii=False))


def _bounded(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [cut]"
