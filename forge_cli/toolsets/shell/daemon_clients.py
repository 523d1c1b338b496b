"""Clients of daemons, whose lines may be granted the daemon's socket for a session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from forge_cli.core.approval import Approval, JudgedPart
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.trial.trials import TriedLine

_CLIENTS = frozenset(
    {
        *("docker", "docker-compose", "podman", "podman-compose", "nerdctl", "buildah"),
        *("psql", "pg_dump", "pg_dumpall", "pg_restore", "pg_isready", "createdb", "dropdb"),
        *("mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump", "redis-cli"),
        *("systemctl", "journalctl", "supervisorctl"),
    }
)


def asks_only_daemons(parts: Iterable[JudgedPart]) -> bool:
    """Return True if every command that asks is such a client, by its plain name."""
    asking = [part.text.split() for part in parts if part.approval != Approval.PRE_APPROVED.value]
    return bool(asking) and all(words and words[0] in _CLIENTS for words in asking)


def may_lend_sockets(tried: TriedLine, zones: Sequence[Zone]) -> bool:
    """Return True if a trial started no program in a writable zone.

    Such a program could be a different one the next time.
    """
    writable = [zone.path for zone in zones if zone.mode is ZoneMode.RW]
    started = [Path(program) for program in tried.programs]
    return not any(any(map(program.is_relative_to, writable)) for program in started)
