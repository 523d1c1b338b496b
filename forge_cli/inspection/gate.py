"""The gate of an inspected worker, which judges calls in this process or in the child."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forge_cli.core.calls import ToolCall
from forge_cli.core.text import as_spelled
from forge_cli.core.thirdparty import deny_third_party, needs_third_party, watching
from forge_cli.core.wire import JsonObject
from forge_cli.engine.gate.outlook import Outlook, answer_of
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.inspector import Inspector

if TYPE_CHECKING:
    from forge_cli.engine.gate.offer import Offer
    from forge_cli.engine.runtime.wiring import Assembly
    from forge_cli.schema.json.forms import OptionValue

_GATES: dict[str, tuple[AbstractAsyncContextManager[Assembly], Assembly]] = {}
"""Resources that the child has opened; they stay open until it ends."""


JudgeCall = Callable[..., Awaitable[Outlook]]
"""A function that takes the arguments of ``_judge``, except the worker."""


@asynccontextmanager
async def judging(
    worker: str, workspace: Path, user_text: str | None = None
) -> AsyncIterator[JudgeCall]:
    """Open a worker and yield a function that judges calls; nothing on disk changes.

    ``user_text`` replaces the content of the user's config.yaml.
    """
    found = load_worker(worker)
    try:
        # opening a worker with code in this process would only fail, and cost its time twice
        if not found.names_code:
            with watching(deny_third_party):
                async with _opened(found, workspace, user_text) as assembly:
                    yield partial(_judge, assembly)
                    return
    except BaseException as error:
        if not needs_third_party(error):
            raise
    async with Inspector(worker, workspace) as inspector:
        await inspector.in_child(open_gate, worker, str(workspace), user_text)
        yield partial(inspector.in_child, judge_in_child, worker)


def _opened(
    worker: Worker, workspace: Path, user_text: str | None
) -> AbstractAsyncContextManager[Assembly]:
    # slow to import, and useless here if the worker names code, which only the child opens
    from forge_cli.engine.runtime.without_model import opened

    return opened(worker, workspace=workspace, make_zones=False, user_text=user_text)


async def open_gate(worker: str, workspace: str, user_text: str | None) -> None:
    """Open a worker in the child and keep it open for ``judge_in_child``."""
    entered = _opened(load_worker(worker), Path(workspace), user_text)
    # the context manager has to be kept: a collected one would close the worker
    _GATES[worker] = (entered, await entered.__aenter__())


async def judge_in_child(worker: str, *call: Any) -> Outlook:
    """Judge a call by a worker that ``open_gate`` has opened."""
    return await _judge(_GATES[worker][1], *call)


async def _judge(
    assembly: Assembly,
    tool: str,
    args: JsonObject | str,
    typed: Mapping[str, OptionValue],
    caller: str = "model",
) -> Outlook:
    guard = assembly.guard
    tool = as_spelled(tool, guard.judge.offers)
    if tool not in guard.judge.offers:
        from forge_cli.inspection.left_out import why_missing

        why = why_missing(assembly.toolbox, tool)
        if why:
            return Outlook(answer_of(tool, "refused", why))
    call = call_of(guard.judge.offers.get(tool), tool, args, typed)
    from forge_cli.engine.gate.answer import verdict_on
    from forge_cli.engine.gate.steps import Caller

    return await verdict_on(guard, call, Caller(caller))


def call_of(
    offer: Offer | None, tool: str, args: JsonObject | str, typed: Mapping[str, OptionValue]
) -> ToolCall:
    """Return a call of a tool; ``args`` is text if it is not a JSON object.

    ``typed`` values are converted by the tool's schema. JSON is judged as it is, like the call of a
    model.
    """
    options = {}
    if offer:
        from forge_cli.schema.json.forms import args_from

        options = args_from(typed, offer.tool.schema.json_schema)
    if isinstance(args, str):
        return ToolCall("approve", tool, {}, args)
    return ToolCall("approve", tool, {**args, **options}, None)
