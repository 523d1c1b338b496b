"""The system prompt: what a worker's model is told before anybody says anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from forge_cli.engine import turns

if TYPE_CHECKING:
    from forge_cli.engine.gate.toolbox import Toolbox
    from forge_cli.engine.turns.output import OutputSchema
    from forge_cli.files.worker import Worker


def system_prompt(
    worker: Worker, guidance: str, toolbox: Toolbox, output: OutputSchema | None, environment: str | None
) -> str:
    """The worker's instructions, the guidance of the workspace, what the toolsets say, where it is, and its answer."""
    answer = output.instructions() if output else None
    return "\n\n".join(filter(None, [worker.instructions, guidance, *toolbox.instructions(), environment, answer]))


def wanted_output(worker: Worker) -> OutputSchema | None:
    """What the worker's file says of its answer."""
    given = worker.config.output_schema
    if given is None:
        return None
    return turns.output.OutputSchema.load(given, where=worker.config.where("output_schema"), folder=worker.folder)
