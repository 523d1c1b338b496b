"""The surroundings of a worker: its zones as events tell them, and what its model is told of where it is."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

from forge_cli import sandbox
from forge_cli.engine.turns.environment import CommandView, Environment

if TYPE_CHECKING:
    from forge_cli.core.zones import Zone
    from forge_cli.engine.runtime.assemble import Assembly
    from forge_cli.files.worker import Worker
    from forge_cli.sandbox.late import LateSandbox

SHELL = "shell"
"""The toolset whose tools are command lines."""

_SYSTEMS = {"Darwin": "macOS"}


def describe_zone(zone: Zone) -> dict[str, Any]:
    """A zone as events tell it."""
    return {
        "name": zone.name,
        "path": str(zone.stands_for or zone.path),
        "mode": zone.mode.value,
        "write": zone.write.value,
        "delete": zone.delete.value,
    }


def environment_of(worker: Worker, assembly: Assembly, branch: str | None) -> str | None:
    """The environment for the model; None where the worker does not want it.

    ``branch`` is that of ``git_branch``, which whoever looks at a worker from a confined process asks outside.
    """
    if not worker.config.environment:
        return None
    toolbox, places, system = assembly.toolbox, assembly.guard.judge.late_sandbox, os.uname()
    has_shell = any(opened.name == SHELL for opened in toolbox.toolsets) and not toolbox.read_only
    environment = Environment(
        directory=assembly.guard.judge.workspace,
        branch=branch,
        zones=tuple(map(_declared, places.zones)) if toolbox.offers else None,
        commands=_command_view(places) if has_shell else None,
        system=f"{_SYSTEMS.get(system.sysname, system.sysname)} {system.machine}",
        day=date.today(),
        read_only=toolbox.read_only,
    )
    return environment.paragraph()


def _declared(zone: Zone) -> Zone:
    """The zone where its worker has it, also if its folder is missing and another stands for it."""
    return replace(zone, path=zone.stands_for) if zone.stands_for else zone


def _command_view(places: LateSandbox) -> CommandView:
    wanted = places.isolation
    found = sandbox.isolation.isolation.isolation(wanted.level, where=wanted.where)
    if found is None:
        return CommandView(confined=False, network=True)
    names = sandbox.isolation.confinement.zone_names(places.zones) if found.shows_names else ()
    return CommandView(confined=True, network=wanted.network, names=names)
