"""A worker prepared for its sessions: toolset classes and their settings, files and policies, each looked up once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from forge_cli.core.errors import ForgeError, WorkerError
from forge_cli.core.text import did_you_mean
from forge_cli.core.thirdparty import announce_third_party
from forge_cli.core.tool import digest_of
from forge_cli.engine.gate.toolbox import NamedToolset
from forge_cli.files.home import forge_home
from forge_cli.files.lookup import SUFFIXES
from forge_cli.files.repository import Guidance, guidance_files
from forge_cli.files.settings import Settings
from forge_cli.files.settings_files import load_settings, organisation_policy
from forge_cli.files.worker import Worker, load_worker
from forge_cli.sandbox.zones.zones import Isolation
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.toolset import Toolset, ToolsetPlaces

if TYPE_CHECKING:
    from forge_cli.core.bus import EventBus
    from forge_cli.core.zones import Zone
    from forge_cli.engine.lock.checking import SessionLock
    from forge_cli.engine.organisation import Organisation
    from forge_cli.engine.plugins.host import PluginHost
    from forge_cli.record.recorder import Sink
    from forge_cli.sandbox.secrets import Redactor
    from forge_cli.sandbox.zones.config import SandboxConfig

_PACKAGE = Path(__file__).resolve().parents[2]
T = TypeVar("T")
UserPolicies = Callable[[str, type[Toolset]], Config | None]
"""Finds the settings of a toolset by its name and its class."""


class PreparedFolder:
    """The contents of a worker's working directory, each part looked up when it is first asked for."""

    def __init__(self, prepared: PreparedWorker, workspace: Path) -> None:
        self.prepared = prepared
        self.workspace = workspace
        self._home = prepared.home
        self._guidance: dict[bool | None, Guidance] = {}

    @property
    def worker(self) -> Worker:
        return self.prepared.worker

    @cached_property
    def settings(self) -> Settings:
        """The settings of the user, and of the project there."""
        return load_settings(self._home, self.workspace)

    @cached_property
    def organisation(self) -> Organisation | None:
        """The policy of the organisation; WorkerError where it forbids something of the worker."""
        policy = organisation_policy()
        if policy is None:
            return None
        from forge_cli.engine.organisation import accepted

        return accepted(policy, self.worker, self.settings)

    @property
    def isolation(self) -> Isolation:
        """The environment of child processes."""
        wanted = self.prepared.isolation
        return self.organisation.isolation(wanted) if self.organisation else wanted

    def require_lock(self) -> SessionLock | None:
        """Return the lock that the worker has to match, if it has to; a LockError if its files differ."""
        return self._lock

    @cached_property
    def _lock(self) -> SessionLock | None:
        worker = self.worker
        organisation = self.organisation
        asked = (
            self.prepared.locked
            or worker.config.lock
            or (organisation and organisation.policy.require.lock)
        )
        if not asked and not (os.environ.get("CI") and worker.path.with_suffix(".lock").is_file()):
            return None
        from forge_cli.engine.lock.checking import lock_for

        return lock_for(worker, self.workspace, self._home, self.prepared.host)

    def sinks(self, session: str, bus: EventBus, *, repeated: bool = False) -> tuple[Sink, ...]:
        """The sinks of a session's lines beside its log; none for one that is repeated."""
        told: Iterable[Sink] = ()
        if self.settings.hooks and not repeated:
            from forge_cli.engine.hooks import followers

            told = followers(self.settings.hooks, self.prepared.host, self.prepared.home, bus)
        return (*(self.organisation.sinks(session) if self.organisation else ()), *told)

    @cached_property
    def policies(self) -> UserPolicies:
        """Settings of the user and the project for toolsets."""
        return user_policies(self.prepared.host, self.settings, self._home)

    def guidance(self, told: bool | None) -> Guidance:
        """The text of AGENTS.md there; ``told`` decides for workers that leave it open."""
        if told not in self._guidance:
            said = Guidance()
            wanted = self.worker.config.agents_md
            if guidance_files(self.workspace):
                from forge_cli.files.guidance import guidance_for

                said = guidance_for(wanted, self.workspace, self._home, told=told)
            self._guidance[told] = said
        return self._guidance[told]

    def setting(self, zones: tuple[Zone, ...], isolation: Isolation) -> str:
        """Equal where consent means the same: the same worker file, working directory, zones and isolation."""
        told = [
            (each.name, str(each.path), each.mode.value, each.write.value, each.delete.value)
            for each in zones
        ]
        whole = [
            self.prepared.digest,
            str(self.workspace),
            told,
            (isolation.level.value, isolation.network),
        ]
        return digest_of(repr(whole).encode())


class PreparedWorker:
    """The parts that all sessions of one worker share, each part looked up when it is first asked for.

    A session of its own has one of its own. The items of a batch share one: they work with what there was when the
    first of them began.
    """

    def __init__(
        self, worker: Worker, host: PluginHost, home: Path | None = None, *, locked: bool = False
    ) -> None:
        """``locked`` says that it has to match its lock, also if it does not require that itself."""
        self.worker = worker
        self.host = host.beside(worker)
        self.home = home or forge_home()
        self.locked = locked
        self.trials_finished = False
        """Whether changes of killed processes were looked for; once, because a batch may have thousands of sessions."""
        self._of_folder: PreparedFolder | None = None

    @cached_property
    def toolsets(self) -> tuple[NamedToolset, ...]:
        found = [
            NamedToolset(
                self.worker,
                name,
                *self.host.toolset(name, self.worker.config.where("toolsets", name)),
            )
            for name in self.worker.config.toolsets
        ]
        for each in found:
            if each.cls.imports:
                announce_third_party(f"toolsets.{each.name}")
        return tuple(found)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Notes for people who use this worker's toolsets."""
        return tuple(self.host.problems([each.name for each in self.toolsets]))

    @cached_property
    def sandbox(self) -> SandboxConfig | None:
        section = self.worker.section("sandbox")
        if section is None:
            return None
        from forge_cli.sandbox.zones.config import SandboxConfig

        return parse_config(SandboxConfig, section, at=("sandbox",), file=str(self.worker.path))

    @cached_property
    def isolation(self) -> Isolation:
        """The wishes of the worker for its child processes."""
        return self.sandbox.wanted() if self.sandbox else Isolation()

    @property
    def needs_zone(self) -> bool:
        """Return True if one of its toolsets is of no use without a zone."""
        if any(each.cls.needs_zone for each in self.toolsets):
            return True
        return any(each.needs_zone for each in self.worker.toolsets)

    def brought_zones(self, workspace: Path) -> list[Zone]:
        """The zones that the worker's toolsets bring along."""
        places = ToolsetPlaces(self.worker.folder, workspace, self.home)
        zones: list[Zone] = []
        for named in self.toolsets:
            zones += named.declared(named.cls.zones_for, places)
        for given in self.worker.toolsets:
            zones += given.zones_for(given.config, places)
        return list(dict.fromkeys(replace(zone, path=workspace / zone.path) for zone in zones))

    @cached_property
    def protected(self) -> tuple[Path, ...]:
        """The files that say what the worker may do, whether or not they exist."""
        return tuple(protected_files(self.worker, self.host))

    @cached_property
    def digest(self) -> str:
        """Equal as long as the worker file is."""
        return self.worker.digest or digest_of(self.worker.content())

    @cached_property
    def policy_files(self) -> Mapping[str, str]:
        """The files that rules may be written to; not those of forge itself."""
        worker = self.worker
        files = {"user": str(self.home / "config.yaml")}
        named = worker.config.where("name")
        was_read = (
            named is not None
            and Path(named.file).name == worker.path.name
            and os.access(worker.path, os.W_OK)
        )
        if was_read and not worker.path.resolve().is_relative_to(_PACKAGE):
            files["worker"] = str(worker.path)
        return files

    @cached_property
    def redactor(self) -> Redactor:
        from forge_cli.sandbox.secrets import own_redactor

        return own_redactor(home=self.home)

    def within(self, workspace: Path) -> PreparedFolder:
        """The parts that depend on the real working directory; most items of a batch have the same."""
        real = workspace.resolve()
        if self._of_folder is None or self._of_folder.workspace != real:
            self._of_folder = PreparedFolder(self, real)
        return self._of_folder


def protected_files(worker: Worker, host: PluginHost) -> Iterator[Path]:
    """The files that say what a worker may do, and those of every worker among them, whether or not they exist.

    A worker that may change one of them may change what is allowed.
    """
    seen: set[Path] = set()
    waiting = [worker]
    while waiting:
        each = waiting.pop()
        if each.path.resolve() in seen:
            continue
        seen.add(each.path.resolve())
        yield from (each.path, each.path.with_suffix(".lock"))
        for path in _own_files(each, host):
            yield path
            if path.suffix in SUFFIXES or path.is_dir():
                with suppress(ForgeError):  # the toolset says what is wrong with it
                    waiting.append(load_worker(path))


def _own_files(worker: Worker, host: PluginHost) -> Iterator[Path]:
    if worker.config.plugins:
        from forge_cli.engine.plugins.local import plugin_files

        yield from plugin_files(worker)
    for name in worker.config.toolsets:
        try:
            toolset = NamedToolset(worker, name, *host.toolset(name))
            toolset.require_settings()
        except ForgeError:  # reported when the worker is opened
            continue
        yield from toolset.declared(toolset.cls.own_files, worker.folder)


def user_policies(host: PluginHost, settings: Settings, home: Path) -> UserPolicies:
    """Settings of user and project for toolsets, whichever worker uses them: by a toolset's name and class."""
    file = str(home / "config.yaml")
    known = [plugin.name for plugin in host.toolset_plugins()]
    for name in settings.policy:
        if name not in known:
            hint = did_you_mean(name, known, f"installed are {', '.join(known)}")
            raise WorkerError(
                settings.where("policy", name), f"policy.{name}: no such toolset", hint=hint
            )

    def policy(name: str, cls: type[Toolset]) -> Config | None:
        section = settings.section("policy", name) if name in settings.policy else None
        if section is None:
            return None
        if cls.Policy is None:
            raise WorkerError(
                settings.where("policy", name), f"policy.{name}: this toolset takes no policy"
            )
        return parse_config(cls.Policy, section, at=("policy", name), file=file)

    return policy
