"""A worker prepared for its sessions: toolset classes, settings, files and policies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
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
"""A function that finds the user's settings of a toolset by its name and class."""


class PreparedFolder:
    """The parts of a worker that depend on its working directory, each made when needed."""

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
        """The settings of the user, and of the project in the folder."""
        return load_settings(self._home, self.workspace)

    @cached_property
    def organisation(self) -> Organisation | None:
        """The policy of the organisation; raises WorkerError if it forbids the worker."""
        policy = organisation_policy()
        if policy is None:
            return None
        from forge_cli.engine.organisation import accepted

        return accepted(policy, self.worker, self.settings)

    @property
    def isolation(self) -> Isolation:
        """The isolation of child processes."""
        wanted = self.prepared.isolation
        if self.organisation:
            return self.organisation.isolation(wanted)
        return wanted

    def require_lock(self) -> SessionLock | None:
        """Return the lock that the worker has to match, if any; raise LockError if it does not."""
        return self._lock

    @cached_property
    def _lock(self) -> SessionLock | None:
        worker = self.worker
        organisation = self.organisation
        is_required = self.prepared.locked or worker.config.lock
        if organisation and organisation.policy.require.lock:
            is_required = True
        # in CI an existing lock counts, so that a build cannot use other versions unnoticed
        in_ci = os.environ.get("CI") and worker.path.with_suffix(".lock").is_file()
        if not is_required and not in_ci:
            return None
        from forge_cli.engine.lock.checking import lock_for

        return lock_for(worker, self.workspace, self._home, self.prepared.host)

    def sinks(self, session: str, bus: EventBus, *, repeated: bool = False) -> tuple[Sink, ...]:
        """Return the sinks of a session's lines besides its log; hooks hear no replay."""
        sinks: list[Sink] = []
        if self.organisation:
            sinks += self.organisation.sinks(session)
        if self.settings.hooks and not repeated:
            from forge_cli.engine.hooks import followers

            sinks += followers(self.settings.hooks, self.prepared.host, self.prepared.home, bus)
        return tuple(sinks)

    @cached_property
    def policies(self) -> UserPolicies:
        """The settings of the user and the project for toolsets."""
        return user_policies(self.prepared.host, self.settings, self._home)

    def guidance(self, told: bool | None) -> Guidance:
        """Return the text of AGENTS.md; ``told`` decides for workers that leave it open."""
        if told not in self._guidance:
            said = Guidance()
            wanted = self.worker.config.agents_md
            if guidance_files(self.workspace):
                from forge_cli.files.guidance import guidance_for

                said = guidance_for(wanted, self.workspace, self._home, told=told)
            self._guidance[told] = said
        return self._guidance[told]

    def setting(self, zones: tuple[Zone, ...], isolation: Isolation) -> str:
        """Return a digest that is equal if consent for one session is valid for another."""
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
    """The parts that all sessions of one worker share, each made when needed.

    The items of a batch share one. They work with the files as they were for the first item.
    """

    def __init__(
        self, worker: Worker, host: PluginHost, home: Path | None = None, *, locked: bool = False
    ) -> None:
        """With ``locked``, the worker has to match its lock even if it does not require one."""
        self.worker = worker
        self.host = host.beside(worker)
        self.home = home or forge_home()
        self.locked = locked
        self.trials_finished = False
        """True once changes of killed processes were searched, which a batch does only once."""
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
        """Notes for users of this worker's toolsets."""
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
        """The isolation that the worker wants for its child processes."""
        return self.sandbox.wanted() if self.sandbox else Isolation()

    @property
    def needs_zone(self) -> bool:
        """True if one of its toolsets is useless without a zone."""
        if any(each.cls.needs_zone for each in self.toolsets):
            return True
        return any(each.needs_zone for each in self.worker.toolsets)

    @property
    def judges_only(self) -> bool:
        """True if one of its toolsets is for calls that another program makes."""
        return any(each.cls.judges_only for each in self.toolsets)

    def brought_zones(self, workspace: Path) -> list[Zone]:
        """Return the zones of the worker's toolsets."""
        places = ToolsetPlaces(self.worker.folder, workspace, self.home)
        zones: list[Zone] = []
        for named in self.toolsets:
            zones += named.declared(named.cls.zones_for, places)
        for given in self.worker.toolsets:
            zones += given.zones_for(given.config, places)
        return list(dict.fromkeys(replace(zone, path=workspace / zone.path) for zone in zones))

    @cached_property
    def protected(self) -> tuple[Path, ...]:
        """The files that define the permissions of the worker, existing or not."""
        return tuple(protected_files(self.worker, self.host))

    @cached_property
    def digest(self) -> str:
        """The digest of the worker file."""
        return self.worker.digest or digest_of(self.worker.content())

    @cached_property
    def policy_files(self) -> Mapping[str, str]:
        """The files that rules may be written to, but not forge's own."""
        worker = self.worker
        files = {"user": str(self.home / "config.yaml")}
        named = worker.config.where("name")
        # A worker that a program makes has a path, but no file.
        was_read = named is not None and Path(named.file).name == worker.path.name
        can_write = was_read and os.access(worker.path, os.W_OK)
        if can_write and not worker.path.resolve().is_relative_to(_PACKAGE):
            files["worker"] = str(worker.path)
        return files

    @cached_property
    def redactor(self) -> Redactor:
        from forge_cli.sandbox.secrets import own_redactor

        return own_redactor(home=self.home)

    def within(self, workspace: Path) -> PreparedFolder:
        """Return the parts for a working directory; most items of a batch have the same one."""
        real = workspace.resolve()
        if self._of_folder is None or self._of_folder.workspace != real:
            self._of_folder = PreparedFolder(self, real)
        return self._of_folder


def protected_files(worker: Worker, host: PluginHost) -> Iterator[Path]:
    """Yield the files that define the permissions of a worker and its children, existing or not.

    A worker that may change one of them may change its own permissions.
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
                with suppress(ForgeError):  # the toolset reports it
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
    """Return the settings of user and project for toolsets, whichever worker uses them."""
    file = str(home / "config.yaml")
    known = [plugin.name for plugin in host.toolset_plugins()]
    for name in settings.policy:
        if name not in known:
            hint = did_you_mean(name, known, f"installed are {', '.join(known)}")
            where = settings.where("policy", name)
            raise WorkerError(where, f"policy.{name}: no such toolset", hint=hint)

    def policy(name: str, cls: type[Toolset]) -> Config | None:
        section = None
        if name in settings.policy:
            section = settings.section("policy", name)
        if section is None:
            return None
        if cls.Policy is None:
            where = settings.where("policy", name)
            raise WorkerError(where, f"policy.{name}: this toolset has no policy")
        return parse_config(cls.Policy, section, at=("policy", name), file=file)

    return policy
