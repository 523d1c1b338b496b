"""Validation of a worker and its children by opening them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from forge_cli.core.bus import EventBus
from forge_cli.files.allowed import allowed_by, find_allowed
from forge_cli.files.worker import Worker, load_worker
from forge_cli.inspection.left_out import servers_left_out
from forge_cli.inspection.model_names import check_model
from forge_cli.ui.warnings import warn_of_events

if TYPE_CHECKING:
    from forge_cli.engine.runtime.wiring import Assembly


async def open_all(path: str, workspace: str) -> tuple[tuple[int, int, list[str]], list[str]]:
    """Open a worker and its children, each once.

    Returns the number of toolsets and tools, the MCP servers whose tools are unknown, and warnings
    about models.
    """
    from forge_cli.engine.runtime.without_model import opened

    bus = EventBus()
    odd = list[str]()
    seen = set[Path]()
    warn_of_events(bus)
    open_worker = partial(opened, workspace=Path(workspace), bus=bus, make_zones=False)

    async def look(
        worker: Worker, parent: Assembly | None, depth: int = 0
    ) -> tuple[int, int, list[str]]:
        seen.add(worker.path.resolve())
        async with open_worker(worker, parent=parent) as assembly:
            from forge_cli.engine.runtime.children import MAX_DEPTH

            box = assembly.toolbox
            for each in box.toolsets:
                each.instructions()  # a run calls it at its start, where it can fail
            odd.extend(filter(None, [check_model(worker, Path(workspace))]))
            for entry in allowed_by(worker.section("toolsets", "workers")):
                child = find_allowed(worker.folder, entry, None)
                if child.path.resolve() not in seen and depth < MAX_DEPTH:
                    await look(child, assembly, depth + 1)
            return len(box.toolsets), len(box.offers), servers_left_out(box)

    return await look(load_worker(path), None), odd
