"""The policy of an organisation, applied to workers and sessions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from forge_cli.core.approval import ApprovalMode, OnAsk
from forge_cli.core.errors import Mark, WorkerError
from forge_cli.core.source import OWN, canonical
from forge_cli.engine.lock.gather import distribution_of
from forge_cli.engine.plugins.scan import OBSERVER, installed
from forge_cli.files.home import ASK_ADMIN, forge_home
from forge_cli.files.mcp import McpServer
from forge_cli.files.organisation import (
    OrganisationPolicy,
    list_patterns,
    place_of_user,
    policy_conflict,
    required_on_ask,
)
from forge_cli.files.settings import Settings
from forge_cli.files.trust import with_children
from forge_cli.files.worker import Worker
from forge_cli.record.line import Line
from forge_cli.record.places import SessionLost
from forge_cli.sandbox.isolation.isolation import best_mechanism
from forge_cli.sandbox.zones.config import SandboxConfig
from forge_cli.sandbox.zones.zones import Isolation, IsolationLevel
from forge_cli.schema.config import parse_config


class Organisation(Struct, frozen=True):
    """The policy of an organisation, applied to workers."""

    policy: OrganisationPolicy

    def objections(self, worker: Worker, settings: Settings) -> Iterator[WorkerError]:
        """Yield everything in the files of a worker and its children that the policy forbids."""
        for each in with_children(worker):
            yield from self._about_worker(each, settings)
        for hook in settings.hooks:
            if hook.observer:
                yield from self._about_plugin(f"{OBSERVER}{hook.observer}", hook.where("observer"))

    def _about_worker(self, worker: Worker, settings: Settings) -> Iterator[WorkerError]:
        policy = self.policy
        config = worker.config
        if not policy.allows_worker(worker):
            problem = f"the worker '{worker.name}' is not among those that may run"
            yield policy_conflict(
                Mark(str(worker.path)),
                problem,
                policy.allow.where("workers"),
                list_patterns(policy.allow.workers),
            )
        if config.model:
            yield from self.policy.about_model(
                settings.resolve(config.model), config.where("model")
            )
        yield from self._about_plugins(worker)
        if "executables" in config.toolsets and not policy.allow.executables:
            where = config.where("toolsets", "executables")
            yield policy_conflict(
                where,
                "the worker uses executables",
                policy.allow.where("executables"),
                "executables: false",
            )
        for name, server, where in _servers(worker, settings):
            yield from policy.about_server(name, server, where)
        yield from self._about_isolation(worker)

    def _about_plugins(self, worker: Worker) -> Iterator[WorkerError]:
        if self.policy.allow.plugins is None:
            return
        allowed = {OWN, *map(canonical, self.policy.allow.plugins)}
        for name in worker.config.toolsets:
            yield from self._about_plugin(name, worker.config.where("toolsets", name))
        section = worker.config.toolsets.get("external")
        parts = section if isinstance(section, list) else [section]
        for part in parts:
            package = ""
            if isinstance(part, Mapping):
                package = str(part.get("package"))
            found = package and (distribution_of(package) or package.partition(".")[0])
            if found and canonical(found) not in allowed:
                yield self.policy.about_plugin(found, worker.config.where("toolsets", "external"))

    def _about_plugin(self, name: str, where: Mark | None) -> Iterator[WorkerError]:
        """Yield an objection if the plugin behind an entry point is not allowed."""
        allowed = {OWN, *map(canonical, self.policy.allow.plugins or ())}
        if self.policy.allow.plugins is None:
            return
        offered = {
            each.distribution for each in installed(forge_home() / "cache") if each.name == name
        }
        if offered and allowed.isdisjoint(map(canonical, offered)):
            yield self.policy.about_plugin(", ".join(sorted(offered)), where)

    def _about_isolation(self, worker: Worker) -> Iterator[WorkerError]:
        section = worker.section("sandbox")
        if section is None:
            return
        config = parse_config(SandboxConfig, section, at=("sandbox",), file=str(worker.path))
        if config.isolation is not IsolationLevel.OFF:
            return
        where = config.where("isolation")
        required = self.policy.require.where("isolation")
        if forbidden := self.policy.forbids("unconfined"):
            yield policy_conflict(where, "isolation is off", forbidden, "forbid: unconfined")
        elif where and self.policy.require.isolation:
            yield policy_conflict(where, "isolation is off", required, "isolation: required")

    def isolation(self, wanted: Isolation) -> Isolation:
        """Return the isolation of child processes, as strict as worker and organisation require."""
        forbidden = self.policy.forbids("unconfined")
        if forbidden and best_mechanism() is None:
            raise WorkerError(
                forbidden, "forbid: unconfined: this machine has nothing that confines commands"
            )
        if self.policy.require.isolation is None or wanted.level is IsolationLevel.REQUIRED:
            return wanted
        # A network that the worker states stays as it is.
        network = wanted.network if wanted.network_where else IsolationLevel.REQUIRED.network
        return replace(
            wanted,
            level=IsolationLevel.REQUIRED,
            network=network,
            where=self.policy.require.where("isolation"),
        )

    def check_mode(self, mode: ApprovalMode) -> None:
        """Raise WorkerError if the approval mode is forbidden."""
        forbidden = self.policy.forbids("approve_all")
        if forbidden and mode is ApprovalMode.APPROVE_ALL:
            raise policy_conflict(
                None, "the approval mode is approve_all", forbidden, "forbid: approve_all"
            )

    def required(self, on_ask: OnAsk, read_only: bool) -> tuple[OnAsk, bool]:
        """Return ``--on-ask`` and ``--read-only`` as strict as the organisation requires."""
        return required_on_ask(self.policy, on_ask), read_only or self.policy.require.read_only

    def sinks(self, session: str) -> tuple[RequiredLog, ...]:
        """Return the sinks of events that the policy requires."""
        if self.policy.require.log_dir is None:
            return ()
        folder = place_of_user(self.policy.require.log_dir)
        if folder is None:
            problem = f"log_dir: there is no home for {self.policy.require.log_dir}"
            raise WorkerError(self.policy.require.where("log_dir"), problem, hint=ASK_ADMIN)
        if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            problem = f"log_dir: there is no folder {folder}"
            if os.path.lexists(folder):
                problem = f"log_dir: {folder} is not a writable folder"
            raise WorkerError(self.policy.require.where("log_dir"), problem, hint=ASK_ADMIN)
        return (RequiredLog(folder / f"{session}.jsonl"),)


class RequiredLog(Struct, frozen=True):
    """A sink that appends each line to a file of the organisation.

    If it cannot be written, the session stops.
    """

    path: Path

    def __call__(self, line: Line) -> None:
        if line.transient:
            return
        # O_NOFOLLOW, because another user of the folder could make a link to another file.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            with open(os.open(self.path, flags, 0o640), "a") as stream:
                stream.write(line.text())
        except OSError as error:
            problem = (
                f"{self.path}: the organisation requires this log,"
                f" and it cannot be written: {error.strerror}"
            )
            raise SessionLost(problem, hint=ASK_ADMIN) from None


def _servers(worker: Worker, settings: Settings) -> Iterator[tuple[str, McpServer, Mark | None]]:
    """Yield the MCP servers that a worker defines, or names from the user's config.

    Servers in .mcp.json are checked when they are opened.
    """
    section: Any = worker.config.toolsets.get("mcp")
    named = None
    if isinstance(section, Mapping):
        named = section.get("servers")
    for name in named if isinstance(named, list | Mapping) else ():
        defined = named[name] if isinstance(named, Mapping) else None
        where = worker.config.where("toolsets", "mcp", "servers", name)
        server = settings.mcp.servers.get(name)
        if defined:
            server = parse_config(McpServer, defined, file=str(worker.path))
        if server is not None:
            yield str(name), server, where


def accepted(policy: OrganisationPolicy, worker: Worker, settings: Settings) -> Organisation:
    """Return the organisation if it allows a worker; raise the first objection otherwise."""
    found = Organisation(policy)
    for objection in found.objections(worker, settings):
        raise objection
    return found
