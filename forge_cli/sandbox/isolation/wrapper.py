"""How the child processes of a worker are started: confined, where the worker wants it and the machine can."""

from __future__ import annotations

from functools import partial

from forge_cli.core.toolset import ToolsetEnv
from forge_cli.files.home import user_home
from forge_cli.sandbox.files.sandbox import sandbox_of
from forge_cli.sandbox.isolation.confinement import confinement_for
from forge_cli.sandbox.isolation.isolation import isolation
from forge_cli.sandbox.processes.process import Wrap, unconfined
from forge_cli.sandbox.zones.zones import IsolationLevel

UNCONFINED = "child processes are not confined on this machine: install bubblewrap (bwrap), or say 'isolation: off'"


def wrapper_for(env: ToolsetEnv) -> Wrap:
    """How a worker's commands are started; if they should be confined and cannot be, one of its toolsets says so."""
    sandbox = sandbox_of(env)
    wanted = sandbox.isolation
    found = isolation(wanted.level, where=wanted.where)
    if found is None:
        if wanted.level is IsolationLevel.AUTO and UNCONFINED not in sandbox.told:
            sandbox.told.add(UNCONFINED)
            env.notify("warning", UNCONFINED)
        return unconfined
    confinement = confinement_for(
        sandbox.zones,
        workspace=env.workspace,
        user_home=user_home(),
        forge_home=env.home,
        protected=sandbox.protected,
        network=wanted.network,
    )
    return partial(found.wrap, confinement=confinement)
