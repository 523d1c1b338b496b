"""A worker that is opened again, or gets another model, in the middle of its session."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from forge_cli.engine.runtime.opening import (
    OpenWorker,
    approval_mode_of,
    assemble_worker,
    choose_model,
    close_model,
    make_loop,
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
    folder, controller = spec.prepare().within(old.folder.workspace), old.assembly.guard.controller
    mode = controller.mode
    spec = folder.organisation.applied(spec) if folder.organisation else spec
    try:
        controller.mode = approval_mode_of(spec, folder.settings)
        assembly = await assemble_worker(spec, folder, controller, stack, notify, delegate, old.loop)
        loop = await make_loop(spec, folder, old.model, assembly, notify, old.loop)
    except BaseException:
        controller.mode = mode
        raise
    return replace(old, spec=spec, folder=folder, assembly=assembly, loop=loop)


def change_model(old: OpenWorker, spec: RuntimeSpec, stack: AsyncExitStack, notify: Notify) -> OpenWorker:
    """Let another model take the next turns, the one that ``spec`` names; ``stack`` closes it."""
    model = choose_model(spec, old.folder, notify)
    stack.push_async_callback(close_model, model.provider)
    price = price_of(spec, old.folder.settings, model)
    old.loop.model = model.provider
    old.loop.context.window = window_of(old.folder, model)
    return replace(old, spec=spec, model=model, price=price)
