"""A whole worker as one tool: its only argument is a task, and its answer is the result."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from forge_cli.apps.serve.calls import ServedCall
from forge_cli.core.context import ToolContext
from forge_cli.core.events import Event, ToolStarted, TurnStart, WorkerUpdate
from forge_cli.core.results import Json, ResultValue, Text
from forge_cli.core.tool import LONGEST, Args
from forge_cli.core.wire import JsonObject
from forge_cli.engine.runtime.children import run_to_end
from forge_cli.engine.runtime.options import Opened
from forge_cli.engine.runtime.result import WorkerResult, answer_or_raise
from forge_cli.schema.tool import Tool

INPUT: JsonObject = {
    "type": "object",
    "properties": {"task": {"type": "string", "minLength": 1, "description": "What the worker is to do."}},
    "required": ["task"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class WorkerTask:
    """Gives tasks to a worker, each in a session of its own; the client that made the call is asked where it asks."""

    opened: Opened
    find_call: Callable[[str], ServedCall | None]

    def as_tool(self) -> Tool:
        worker = self.opened.worker
        return Tool(
            name=re.sub(r"[^a-zA-Z0-9_-]", "_", f"run_{worker.name}")[:64],
            description=worker.config.description or f"Gives a task to the worker '{worker.name}'.",
            input_schema=INPUT,
            execute=self._carry_out,
            needs_approval=False,  # every call that the worker makes passes its gate
            delegates=True,
            timeout=LONGEST,
        )

    async def _carry_out(self, args: Args, context: ToolContext) -> ResultValue:
        call = self.find_call(context.call_id)
        with context.interrupt.child() as signal:

            async def work() -> WorkerResult:
                asked, worker = self.opened.options, self.opened.worker
                with asked.open(lambda sentence: None, worker=worker, task=args["task"]) as opened:
                    context.report(f"session {opened.session.id}", None)
                    runtime = opened.make_runtime(
                        approval_callback=call.ask if call and call.can_ask else None,
                        on_event=lambda event: _tell(event, context),
                        interrupt_signal=signal,
                    )
                    async with runtime:
                        return await runtime.run(args["task"])

            result = await run_to_end(work, signal)
        answer = answer_or_raise(result)
        return Text(answer) if result.output is None else Json(result.output)


def _tell(event: Event, context: ToolContext) -> None:
    """Tell a client what the worker does."""
    match event:
        case TurnStart(turn=turn):
            context.report(f"turn {turn}", None)
        case ToolStarted(tool_name=name):
            context.report(f"calls {name}", None)
        case WorkerUpdate(status=status) if event.origin:
            context.report(f"{event.origin.worker}: {status}", None)
        case _:
            pass
