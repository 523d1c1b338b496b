"""The zones of an inspected worker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from forge_cli.core.zones import Zone
from forge_cli.files.home import user_home
from forge_cli.files.worker import Worker
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.declared import open_zones
from forge_cli.sandbox.zones.zones import NoDefaultZone
from forge_cli.schema.config import parse_config


def declared_zones(worker: Worker, workspace: Path) -> Sequence[Zone]:
    """Return the zones of a worker without making any; empty if it has no default zone."""
    config = sandbox_section(worker)
    with suppress(NoDefaultZone):  # reported where the worker is opened, if its toolsets need one
        return open_zones(
            config, workspace=workspace, user_home=user_home(), file=str(worker.path), make=False
        )
    return ()


def sandbox_section(worker: Worker) -> SandboxConfig:
    """Return the ``sandbox`` section of a worker, validated."""
    section = worker.section("sandbox")
    return parse_config(
        SandboxConfig, {} if section is None else section, at=("sandbox",), file=str(worker.path)
    )
