"""``forge worker``: worker files, looked at without a model."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from forge_cli.cli.common import DirectoryOption, in_loop, new_app, opened, work_folder
from forge_cli.core.bus import EventBus
from forge_cli.core.events import Event, Status
from forge_cli.files.worker import Worker, load_worker

app = new_app(help="Check worker files.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Check worker files."""


@app.command()
def check(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="A worker file, or a folder with a worker.yaml.")],
    directory: DirectoryOption = None,
) -> None:
    """Say whether a worker file is sound: keys, zones, toolsets, tools and approvals."""
    in_loop(_check, worker, load_worker(worker), directory)


async def _check(shown: str, worker: Worker, directory: DirectoryOption) -> None:
    bus = EventBus()
    bus.subscribe(_warn)
    async with opened(worker, workspace=work_folder(directory), bus=bus) as assembly:
        toolsets, tools = len(assembly.toolbox.toolsets), len(assembly.toolbox.offers)
    sys.stdout.write(f"{shown}: ok (worker '{worker.name}', toolsets: {toolsets}, tools: {tools})\n")


def _warn(event: Event) -> None:
    if isinstance(event, Status):
        sys.stderr.write(f"{event.level}: {event.message}\n")
