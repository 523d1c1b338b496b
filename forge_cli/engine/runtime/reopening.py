"""A worker that is opened again, or gets another model, in the middle of its session."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.engine.runtime.opening import (
    OpenWorker,
    approval_mode_of,
    assemble_worker,
    choose_model,
    close_model,
    make_loop,
    offer_tools,
    price_of,
    window_of,
)

if TYPE_CHECKING:
    from forge_cli.core.notify import Notify
    from forge_cli.engine.gate.guard import Delegate
    from forge_cli.engine.runtime.wiring import RuntimeSpec


async def reopen_worker(
    old: OpenWorker, spec: RuntimeSpec, stack: AsyncExitStack, notify: Notify, delegate: Delegate
) -> OpenWorker:
    """Open a worker again in the middle of its session, as ``spec`` has it now; model, history and grants stay."""
    folder, controller, mode = spec.prepare().within(old.workspace), old.controller, old.controller.mode
    settings = folder.settings
    spec = folder.organisation.applied(spec) if folder.organisation else spec
    try:
        controller.mode = approval_mode_of(spec, settings)
        assembly = await assemble_worker(spec, folder, controller, stack, notify)
        window = window_of(settings, old.model.provider)
        offered = await offer_tools(spec, settings, window, assembly, notify, old.loop.offered.names)
        guidance = folder.guidance(spec.wiring.guidance)
        loop = make_loop(spec, folder, window, old.model, assembly, offered, old.loop.redactor, delegate, old.loop)
    except BaseException:
        controller.mode = mode
        raise
    return replace(
        old, spec=spec, settings=settings, loop=loop, guidance=guidance, at_hand=assembly.at_hand, lock=assembly.lock
    )


def change_model(old: OpenWorker, spec: RuntimeSpec, stack: AsyncExitStack, notify: Notify) -> OpenWorker:
    """Let another model take the next turns, the one that ``spec`` names; ``stack`` closes it."""
    model = choose_model(spec, old.settings, (old.workspace, Path.cwd()), notify)
    stack.push_async_callback(close_model, model.provider)
    price = price_of(spec, old.settings, model)
    old.loop.model = model.provider
    old.loop.context.window = window_of(old.settings, model.provider)
    return replace(old, spec=spec, model=model, price=price)
