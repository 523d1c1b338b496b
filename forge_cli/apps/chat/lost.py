"""Interrupted calls of a resumed conversation, as lines for the person."""

from __future__ import annotations

from collections.abc import Iterator

from forge_cli.core.calls import ToolCall
from forge_cli.core.messages import CallResult
from forge_cli.core.phrases import INTERRUPTED_CALL, UNCERTAIN_CALL
from forge_cli.core.text import visible
from forge_cli.record.resume import Past
from forge_cli.ui.terminal.calls import short_args

NOT_CALLED = "{} was not called; "
"""The prefix of the text that the model reads about a refused call."""


def lines_of_lost(past: Past) -> Iterator[str]:
    """Yield a line for each call of the last turn that did not run, or may not have run.

    If the model has answered since, there are none.
    """
    if not past.messages or past.messages[-1].role != "tool":
        return
    spoken = [place for place, message in enumerate(past.messages) if message.role == "assistant"]
    if not spoken:
        return
    last = past.messages[spoken[-1]]
    results: dict[str, CallResult] = {}
    for message in past.messages[spoken[-1] :]:
        results.update((each.call_id, each) for each in message.results)
    for call in last.calls:
        text = results[call.id].text if call.id in results else ""
        if UNCERTAIN_CALL in text:
            yield f"{_called(call)}: interrupted; it may have run"
        elif INTERRUPTED_CALL in text:
            yield f"{_called(call)}: interrupted before it ran"
        elif text.startswith(NOT_CALLED.format(call.name)):
            reason = visible(text.removeprefix(NOT_CALLED.format(call.name)))
            yield f"{_called(call)}: not called; {reason}"


def _called(call: ToolCall) -> str:
    return f"{visible(call.name)} {short_args(call.args)}".strip()
