"""How the child processes of a worker are started: confined, where the worker wants it and the machine can."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from forge_cli.files.home import user_home
from forge_cli.sandbox.confinement import confinement_for
from forge_cli.sandbox.isolation import isolation
from forge_cli.sandbox.paths import Sandbox
from forge_cli.sandbox.process import Wrap, unconfined
from forge_cli.sandbox.zones import Level

UNCONFINED = "child processes are not confined on this machine: install bubblewrap (bwrap), or say 'isolation: off'"


def wrapper_for(sandbox: Sandbox, *, workspace: Path, forge_home: Path) -> tuple[Wrap, str | None]:
    """How a worker's commands are started, with what to say when they should be confined and cannot be."""
    wanted = sandbox.isolation
    found = isolation(wanted.level, where=wanted.where)
    if found is None:
        return unconfined, UNCONFINED if wanted.level is Level.AUTO else None
    confinement = confinement_for(
        sandbox.zones,
        workspace=workspace,
        user_home=user_home(),
        forge_home=forge_home,
        protected=sandbox.protected,
        network=wanted.network,
    )
    return partial(found.wrap, confinement=confinement), None
