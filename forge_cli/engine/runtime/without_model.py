"""A worker opened without a model: its tools and its gate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from forge_cli.core.approval import ApprovalMode
from forge_cli.core.bus import EventBus
from forge_cli.core.errors import StatusLevel
from forge_cli.core.events import StatusEvent
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.provenance.index import SessionWords
from forge_cli.engine.runtime.assemble import Assembler
from forge_cli.engine.runtime.prepared import PreparedWorker
from forge_cli.engine.runtime.wiring import Assembly, Wiring
from forge_cli.files.settings_files import load_settings
from forge_cli.files.worker import Worker, WorkerConfig
from forge_cli.schema.config import parse_config


def bare_worker(toolsets: dict[str, object], sandbox: dict[str, object] | None = None) -> Worker:
    """Return a worker for commands without one: these toolsets and the default zone."""
    data: dict[str, object] = {"name": "forge", "toolsets": toolsets}
    if sandbox is not None:
        data["sandbox"] = sandbox
    return Worker(parse_config(WorkerConfig, data), Path.cwd() / "worker.yaml", "")


@asynccontextmanager
async def opened(
    worker: Worker,
    *,
    workspace: Path,
    host: PluginHost | None = None,
    bus: EventBus | None = None,
    mode: ApprovalMode = ApprovalMode.INTERACTIVE,
    interrupt: InterruptSignal | None = None,
    parent: Assembly | None = None,
    make_zones: bool = True,
    confines: bool = True,
    home: Path | None = None,
    user_text: str | None = None,
    is_told: Callable[[str], bool] = lambda message: True,
    words: SessionWords | None = None,
) -> AsyncIterator[Assembly]:
    """Open a worker's tools and its gate without a model.

    Without ``make_zones``, calls can only be judged. Without ``confines``, another program runs
    the commands and confines nothing. ``home`` replaces forge's own folder, and ``user_text`` the
    user's config.yaml. ``is_told`` returns False for messages to leave out. ``words`` are those of
    a session, by which its calls are judged.
    """
    bus = bus or EventBus()
    folder = PreparedWorker(worker, host or PluginHost(), home).within(workspace)
    if user_text is not None:
        # Takes the place of the cached property.
        folder.settings = load_settings(folder.prepared.home, folder.workspace, user_text=user_text)

    def notify(level: StatusLevel, message: str) -> None:
        if is_told(message):
            bus.emit(StatusEvent.of(level, message))

    async with AsyncExitStack() as stack:
        assembler = Assembler(
            folder,
            Wiring(interrupt_signal=interrupt or InterruptSignal(), bus=bus),
            ApprovalController(mode, bus=bus),
            stack,
            notify,
            parent=parent,
            make_zones=make_zones,
            confines=confines,
            words=words,
        )
        yield await assembler.assemble()
