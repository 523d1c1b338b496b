"""The assembly of a worker: from its file to an open sandbox, open toolsets and their tools."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from forge_cli.core.bounds import MORE_TIME_TO_LOAD, call_within, wait_within
from forge_cli.core.errors import ForgeError, Mark, WorkerError
from forge_cli.core.source import PYTHON, Source
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.engine.gate.consent import Consent
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.judge import Judge, JudgedWorker
from forge_cli.engine.gate.toolbox import (
    NamedToolset,
    OpenToolset,
    Toolbox,
    toolset_failure,
    toolset_title,
)
from forge_cli.engine.runtime.wiring import Assembly, TaskAtHand, Wiring
from forge_cli.files.home import user_home
from forge_cli.files.settings_files import import_timeout
from forge_cli.sandbox.zones.zones import Isolation, IsolationLevel, NoDefaultZone, default_zone
from forge_cli.schema.toolset import Toolset, ToolsetConfig, ToolsetEnv

if TYPE_CHECKING:
    from forge_cli.core.calls import Denial
    from forge_cli.core.notify import Notify
    from forge_cli.core.sandbox import SandboxView
    from forge_cli.engine.gate.controller import ApprovalController
    from forge_cli.engine.gate.guard import Delegate
    from forge_cli.engine.gate.resumed import ResumedCalls
    from forge_cli.engine.hooks import Hooks
    from forge_cli.engine.provenance.index import SessionWords
    from forge_cli.engine.provenance.provenance import WorkerProvenance
    from forge_cli.engine.runtime.loaded import LoadedFinder
    from forge_cli.engine.runtime.prepared import PreparedFolder, PreparedWorker
    from forge_cli.engine.runtime.requests import WorkerRequests
    from forge_cli.files.worker import Worker
    from forge_cli.sandbox.files.held import ChangeKeeper
    from forge_cli.sandbox.files.sandbox import Sandbox
    from forge_cli.sandbox.worker_processes import WorkerProcesses


# Imports inside functions are for parts that few workers have, so that the others open faster.


@asynccontextmanager
async def _task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a task group that raises an error of its body alone, not inside an exception group."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        try:
            yield tasks
        except Exception as error:  # a task group would wrap it, as if one of its tasks had failed
            failure = error
    if failure is not None:
        raise failure


def _open_own(
    prepared: PreparedWorker, workspace: Path, *, make: bool, enough: bool
) -> tuple[Zone, ...]:
    """Return the worker's own zones; none if no default zone is possible and none is needed."""
    config = prepared.sandbox
    file = str(prepared.worker.path)
    home = user_home()
    try:
        if config is None or config.zones is None:
            return (default_zone(workspace=workspace, user_home=home, file=file),)
        from forge_cli.sandbox.zones.declared import open_zones

        return open_zones(config, workspace=workspace, user_home=home, file=file, make=make)
    except NoDefaultZone:
        if not enough and prepared.needs_zone:
            raise
        return ()


def _why_no_default(prepared: PreparedWorker, workspace: Path) -> str | None:
    """Return why the working directory is not the default zone, for errors of file tools."""
    if opened_sandbox(prepared.worker.sandbox) is not None:
        return None
    if prepared.sandbox and prepared.sandbox.zones is not None:
        return None
    try:
        default_zone(workspace=workspace, user_home=user_home(), file="")
    except NoDefaultZone as error:
        return error.reason
    return None


def opened_sandbox(given: object) -> Sandbox | None:
    """Return the sandbox that a program gave a worker, if it is an open one."""
    if given is None:
        return None
    from forge_cli.sandbox.files.sandbox import Sandbox

    return given if isinstance(given, Sandbox) else None


def _is_zone(folder: Path, zones: Sequence[Zone]) -> bool:
    """Return True if a zone has this very folder, so that its files can be read there."""
    real = Path(os.path.realpath(folder))
    return any(zone.path == real for zone in zones)


class Assembler:
    """An assembler of one worker, which opens its sandbox and toolsets; ``stack`` closes them."""

    def __init__(
        self,
        folder: PreparedFolder,
        wiring: Wiring,
        controller: ApprovalController,
        stack: AsyncExitStack,
        notify: Notify,
        *,
        parent: Assembly | None = None,
        make_zones: bool = True,
        spare: Path | None = None,
        confines: bool = True,
        reopened: ResumedCalls | None = None,
        delegate: Delegate | None = None,
        before_result: Callable[[Any], Awaitable[None]] | None = None,
        words: SessionWords | None = None,
    ) -> None:
        """Take everything that the assembly of a worker depends on.

        ``parent`` is the parent worker, which caps the zones and the permissions. Without
        ``make_zones``, calls can only be judged, and nothing changes on disk. With a ``spare``
        folder for missing zones, reading tools can also run. Without ``confines``, another
        program runs the commands, and nothing confines them. ``reopened`` are the calls of a
        resumed session. ``delegate`` and ``before_result`` are for the gate. ``words`` are those
        of the session; without them, calls are judged without the words that they come from.
        """
        self.folder = folder
        self.wiring = wiring
        self.controller = controller
        self.stack = stack
        self.notify = notify
        self.parent = parent
        self.make_zones = make_zones
        self.spare = spare
        self.confines = confines
        self.reopened = reopened
        self.delegate = delegate
        self.before_result = before_result
        self.words = words
        self._processes: WorkerProcesses | None = None

    @property
    def prepared(self) -> PreparedWorker:
        return self.folder.prepared

    @property
    def worker(self) -> Worker:
        return self.prepared.worker

    @property
    def workspace(self) -> Path:
        """The working directory, or its copy in a draft that has no view."""
        if draft := self.wiring.draft:
            return draft.seen_path(self.folder.workspace)
        return self.folder.workspace

    @property
    def _only_reads(self) -> bool:
        organisation = self.folder.organisation
        required = organisation is not None and organisation.policy.require.read_only
        capped = self.parent is not None and self.parent.guard.judge.read_only
        return self.wiring.read_only or required or capped

    async def assemble(self) -> Assembly:
        if self.folder.organisation:
            self.folder.organisation.check_mode(self.controller.mode)
        lock = self.parent.lock if self.parent else None
        if lock:
            lock.check_child(self.worker)
        elif self.make_zones:
            lock = self.folder.require_lock()
        if self.parent is None:
            for problem in self.prepared.problems:
                self.notify("warning", problem)
        zones, isolation, open_sandbox = self._open_zones()
        at_hand = TaskAtHand()
        home = self.prepared.home
        toolbox = Toolbox(
            [],
            self.notify,
            parent=self.parent.toolbox if self.parent else None,
            read_only=self._only_reads,
        )
        worker = self._judged_worker(zones, isolation)
        denials: list[Denial] = []

        @cache
        def requests() -> WorkerRequests:
            from forge_cli.engine.runtime.requests import WorkerRequests

            interrupt = self.wiring.interrupt_signal
            return WorkerRequests(worker.name, self.controller, interrupt, lambda: at_hand.work)

        tasks = await self.stack.enter_async_context(_task_group())
        # Pushed before any toolset: the stack closes toolsets first, and they may still need it.
        self.stack.push_async_callback(self._close_processes)

        def open_processes() -> WorkerProcesses:
            if self._processes is None:
                from forge_cli.engine.gate.network import NetworkConsent
                from forge_cli.sandbox.worker_processes import WorkerProcesses

                self._processes = WorkerProcesses(
                    open_sandbox(),
                    workspace=self.workspace,
                    home=home,
                    notify=self.notify,
                    gate=NetworkConsent(
                        worker,
                        self.controller,
                        self.wiring.interrupt_signal,
                        isolation.network_where,
                        denials,
                    ),
                    tasks=tasks,
                )
            return self._processes

        @cache
        def open_view() -> SandboxView:
            return open_sandbox().view()

        make_env = partial(
            ToolsetEnv,
            worker=self.worker.name,
            worker_dir=self.worker.folder,
            workspace=self.workspace,
            home=home,
            open_sandbox=open_view,
            open_processes=open_processes,
            notify=self.notify,
            register=self.prepared.host.toolsets_of,
            open_session=requests,
            run_elsewhere=not self.confines or self.prepared.judges_only,
            check_code=lock.check_code if lock else None,
        )
        await self._open_toolsets(toolbox, make_env)
        if lock:
            await lock.check_tools(self.worker, toolbox, self.notify)
        hooks = self.controller.hooks = self._hooks(open_processes)
        judge = self._judge(worker, toolbox, open_sandbox, hooks, self._provenance(worker))
        guard = Guard(
            judge=judge,
            consent=Consent(judge, self.controller, self.wiring.interrupt_signal, toolbox),
            bus=self.controller.bus,
            interrupt=self.wiring.interrupt_signal,
            delegate=self.delegate,
            before_result=self.before_result,
            sync_consent=self.wiring.sync_consent,
            repeated=self.wiring.replay,
            network_denials=denials,
            ask_person=lambda asker, question, form: requests().ask_person(
                asker, question, form, consent=False
            ),
        )
        return Assembly(toolbox, guard, at_hand, open_processes, lock, self.words)

    def _provenance(self, worker: JudgedWorker) -> WorkerProvenance | None:
        """Return the rule about untrusted text, merged of all files."""
        if self.words is None:
            return None
        from forge_cli.engine.provenance.provenance import WorkerProvenance

        above = self.parent.guard.judge.provenance if self.parent else None
        parent = above.rule if isinstance(above, WorkerProvenance) else None
        merged = self.folder.settings.provenance_of(self.worker, parent)
        for sentence in merged.ignored:
            self.notify("warning", sentence)
        provenance = WorkerProvenance(
            merged.rule, self.words, worker, confines=_confines, is_root=self.parent is None
        )
        if self.parent is None:
            provenance.typed_by_author(self.worker.instructions)
        return provenance

    async def _close_processes(self) -> None:
        if self._processes is not None:
            await self._processes.aclose()

    def _open_zones(self) -> tuple[tuple[Zone, ...], Isolation, Callable[[], Sandbox]]:
        """Return the zones of the worker, its isolation, and a function that opens the sandbox.

        The zones are those that the worker declares, or the default one, and those of its
        toolsets. A child without zones has those of its parent, and its own are capped. Empty
        folders in ``spare`` replace missing zones.
        """
        folder = self.folder
        prepared = self.prepared
        make = self.make_zones
        spare = self.spare
        # A read-only session does not make the folders of missing zones.
        if self._only_reads and make:
            make = False
            spare = temporary_folder(self.stack)
        outer = None
        if self.parent:
            outer = self.parent.guard.judge.sandbox
        zones = self._find_zones(outer, make, spare)
        protected = prepared.protected
        isolation = folder.isolation
        if outer is not None:
            from forge_cli.sandbox.files.caps import cap_isolation

            protected = (*protected, *outer.protected)
            isolation = cap_isolation(isolation, outer.isolation)
        if not self.confines:
            isolation = Isolation(IsolationLevel.OFF, where=isolation.where)
        open_changes = outer.open_changes if outer else self._keep_changes()

        # Opened by the first tool that needs it: a worker without paths does not pay for it.
        @cache
        def open_sandbox() -> Sandbox:
            from forge_cli.sandbox.files.consent import OwnFiles
            from forge_cli.sandbox.files.sandbox import Sandbox

            if make and outer is None and not prepared.trials_finished:
                from forge_cli.sandbox.trial.left import finish_trials

                prepared.trials_finished = True
                draft = self.wiring.draft
                # A view must not get what others left: the process outside has completed that.
                finish_trials(draft.place if draft else prepared.home / "sessions", self.notify)
                if draft is None and (
                    "FORGE_DRAFTS" in os.environ or (prepared.home / "drafts").exists()
                ):
                    from forge_cli.sandbox.drafts.draft import finish_drafts

                    finish_drafts(self.notify)
            why = None
            if outer:
                why = outer.no_default
            elif not self.wiring.zones:
                why = _why_no_default(prepared, self.workspace)
            opened = Sandbox(
                zones,
                workspace=self.workspace,
                protected=protected,
                isolation=isolation,
                own=OwnFiles(protected, self._find_loaded(zones, outer)),
                no_default=why,
                home=prepared.home,
            )
            opened.open_changes = open_changes
            if outer is not None:
                opened.notified = outer.notified
            return opened

        return zones, isolation, open_sandbox

    def _find_loaded(self, zones: Sequence[Zone], outer: Sandbox | None) -> LoadedFinder:
        """Return the finder of files that forge or other programs load, which ask for changes."""
        from forge_cli.engine.runtime.loaded import LoadedFinder

        return LoadedFinder(
            self.worker,
            zones,
            self.folder.settings,
            workspace=self.workspace,
            home=self.prepared.home,
            outer=outer.own.loaded if outer else None,
        )

    def _find_zones(
        self, outer: Sandbox | None, make: bool, spare: Path | None
    ) -> tuple[Zone, ...]:
        prepared = self.prepared
        config = self.prepared.sandbox
        given = self.worker.sandbox
        brought = prepared.brought_zones(self.workspace)
        given_open = opened_sandbox(given)
        if given_open is not None:
            zones = given_open.zones
        elif outer is not None and (config is None or config.zones is None):
            names = {each.name for each in brought}
            zones = tuple(zone for zone in outer.zones if zone.name not in names)
        else:
            zones = _open_own(
                prepared,
                self.workspace,
                make=make and outer is None,
                enough=bool(self.wiring.zones),
            )
            settings = self.folder.settings
            if outer is not None:
                from forge_cli.engine.runtime.other_zones import open_child_zone

                zones = tuple(open_child_zone(zone, outer, make) for zone in zones)
            elif settings.policy.get("filesystem"):
                from forge_cli.engine.runtime.other_zones import accepting_edits

                zones = tuple(accepting_edits(zone, settings) for zone in zones)
        if outer is not None:
            from forge_cli.sandbox.files.caps import lies_within

            brought = [zone for zone in brought if lies_within(zone.path, outer.zones)]
        # A folder that is a zone already needs no second one for reading.
        brought = [
            zone for zone in brought if zone.mode is ZoneMode.RW or not _is_zone(zone.path, zones)
        ]
        for zone in brought:
            other = next((other for other in zones if other.name == zone.name), None)
            if other:
                problem = f"zone '{zone.name}': a toolset of this worker has a zone of that name"
                raise WorkerError(other.where, problem, hint="rename your zone")
        if brought:
            from forge_cli.engine.runtime.other_zones import open_brought
            from forge_cli.sandbox.zones.declared import require_distinct

            opened = open_brought(brought, make, self.notify)
            zones = require_distinct((*zones, *opened))
        if self.wiring.zones:
            from forge_cli.engine.runtime.other_zones import add_zones

            zones = add_zones(zones, self.wiring.zones)
        if self.wiring.draft is not None:
            from forge_cli.engine.runtime.other_zones import allow_in_draft

            zones = tuple(allow_in_draft(zone, self.wiring.draft) for zone in zones)
        if spare is not None:
            from forge_cli.engine.runtime.other_zones import use_spare_folder

            zones = tuple(use_spare_folder(zone, spare) for zone in zones)
        if self._only_reads:
            zones = tuple(replace(zone, mode=ZoneMode.RO) for zone in zones)
        return zones

    def _keep_changes(self) -> Callable[[], ChangeKeeper] | None:
        """Return the function that opens the store of changed files, or None at a child."""
        open_changes = None
        if self.wiring.session:
            open_changes = self.wiring.session.open_changes
        if open_changes is None:
            return None

        def open_telling() -> ChangeKeeper:
            keeper = open_changes()
            keeper.notify = self.notify
            keeper.commands = self.worker.config.undo == "commands"
            return keeper

        return open_telling

    async def _open_toolsets(self, toolbox: Toolbox, make_env: Callable[..., ToolsetEnv]) -> None:
        policies = self.folder.policies
        for each in self.prepared.toolsets:
            outer = toolbox.parent_toolset(each.name)
            policy = policies(each.name, each.cls)
            its_env = make_env(toolset=each.name, parent=outer, policy=policy)
            for config in each.configs:
                toolbox.toolsets.append(await _open(each, config, its_env, self.stack))
        for toolset in self.worker.toolsets:
            make = partial(
                toolset.for_session, make_env(policy=policies(toolset.name, type(toolset)))
            )
            toolbox.toolsets.append(await _enter(make, toolset.name, PYTHON, self.stack))
        await toolbox.refresh()

    def _judged_worker(self, zones: tuple[Zone, ...], isolation: Isolation) -> JudgedWorker:
        # rules of a child are not written to its file, because its parent caps it anyway
        files = self.prepared.policy_files
        return JudgedWorker(
            self.worker.name,
            self.workspace,
            zones,
            isolation,
            self.folder.setting(zones, isolation),
            {"user": files["user"]} if self.parent else files,
        )

    def _judge(
        self,
        worker: JudgedWorker,
        toolbox: Toolbox,
        open_sandbox: Callable[[], Sandbox],
        hooks: Hooks | None,
        provenance: WorkerProvenance | None,
    ) -> Judge:
        return Judge(
            worker=worker,
            offers=toolbox.offers,
            open_sandbox=open_sandbox,
            parent=self.parent.guard.judge if self.parent else None,
            read_only=self._only_reads,
            hooks=hooks,
            reopened=self.reopened,
            provenance=provenance,
        )

    def _hooks(self, open_processes: Callable[[], WorkerProcesses]) -> Hooks | None:
        if not self.folder.settings.hooks:
            return None
        from forge_cli.engine.hooks import Hooks

        return Hooks(
            stated=self.folder.settings.hooks,
            host=self.prepared.host,
            home=self.prepared.home,
            workspace=self.workspace,
            worker=self.prepared.worker.name,
            session=self.wiring.session_id,
            processes=open_processes(),
            bus=self.controller.bus,
        )


def _confines() -> bool:
    """Return True if this machine can confine commands."""
    from forge_cli.sandbox.isolation.isolation import best_mechanism

    return best_mechanism() is not None


def temporary_folder(stack: AsyncExitStack) -> Path:
    """Return a folder for changes that must not last, which is removed with ``stack``."""
    return Path(stack.enter_context(TemporaryDirectory(prefix="forge-"))).resolve()


async def _open(
    named: NamedToolset, config: ToolsetConfig, env: ToolsetEnv, stack: AsyncExitStack
) -> OpenToolset:
    """Open a toolset for one of its sections."""
    plugin = named.plugin
    plugin.announce()
    toolset = await _enter(
        partial(named.cls, config, env), named.name, plugin.source, stack, named.where
    )
    toolset.announce = plugin.announce
    toolset.digest = plugin.digest
    # The items of a batch share these settings, and so the offers, which are slow to make.
    toolset.known = named.offers.setdefault(id(config), {})
    return toolset


async def _enter(
    make: Callable[[], Toolset],
    name: str,
    source: Source,
    stack: AsyncExitStack,
    where: Mark | None = None,
) -> OpenToolset:
    title = toolset_title(name, source)
    seconds = import_timeout()
    try:
        toolset = call_within(seconds, f"making {title}", make, remedy=MORE_TIME_TO_LOAD)
        await wait_within(seconds, "opening it", toolset.__aenter__, of=title)
    except ForgeError:
        raise
    except Exception as error:  # third-party code: a toolset that cannot start
        raise toolset_failure(name, source, where, "it cannot start", error) from error
    opened = OpenToolset(toolset, source, where)
    stack.push_async_exit(opened.close)
    return opened
