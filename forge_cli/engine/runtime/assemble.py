"""The composition root: from a worker file to an open sandbox, open toolsets and the tools they offer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from forge_cli.core.bounds import LATER, OPENING, call_within, wait_within
from forge_cli.core.config import Config, Loc, parse_config
from forge_cli.core.errors import ForgeError, Mark, UsageError, WorkerError
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.notify import Notify
from forge_cli.core.text import did_you_mean
from forge_cli.core.thirdparty import before_third_party
from forge_cli.core.tool import Source, digest_of
from forge_cli.core.toolset import Toolset, ToolsetEnv, ToolsetPlaces
from forge_cli.core.values import dataclass
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.judge import Judge
from forge_cli.engine.gate.network import NetworkConsent
from forge_cli.engine.gate.toolbox import OpenToolset, Toolbox, toolset_failure
from forge_cli.engine.hooks.hooks import Hooks, hooks_of
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.local import plugin_files
from forge_cli.engine.plugins.scan import Plugin
from forge_cli.engine.runtime.requests import WorkerRequests
from forge_cli.files.home import forge_home, user_home
from forge_cli.files.settings import Settings, load_settings
from forge_cli.files.trust import TrustStore
from forge_cli.files.worker import SUFFIXES, Worker, load_worker
from forge_cli.sandbox.files.caps import capped, capped_isolation, lies_within
from forge_cli.sandbox.files.held import ChangeKeeper
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.isolation.worker import WorkerProcesses
from forge_cli.sandbox.zones.zones import SandboxConfig, distinct, open_zone, open_zones

PYTHON = Source("local", "Python")
_PACKAGE = Path(__file__).resolve().parents[2]
T = TypeVar("T")


def open_sandbox(
    worker: Worker,
    workspace: Path,
    own_files: Iterable[Path],
    brought: Sequence[Zone] = (),
    parent: Sandbox | None = None,
    *,
    make_zones: bool = True,
    spare: Path | None = None,
    added: Sequence[Zone] = (),
    read_only: bool = False,
) -> Sandbox:
    """The zones that the worker declares, or the default one, and those that its toolsets bring.

    The worker's own files are protected in it. ``parent`` is the sandbox of the parent worker: without zones of its
    own a child has those of its parent, and its own are no wider. Without ``make_zones`` no folder is made;
    empty ones in ``spare`` stand for those that are missing. ``added`` are folders of the user's. With ``read_only``
    nothing can be written in any zone, whatever a tool has declared.
    """
    section = worker.section("sandbox")
    config = parse_config(SandboxConfig, {} if section is None else section, at=("sandbox",), file=str(worker.path))
    given = worker.sandbox
    if isinstance(given, Sandbox):
        zones = given.zones
    elif parent is not None and config.zones is None:
        zones = tuple(zone for zone in parent.zones if zone.name not in {each.name for each in brought})
    else:
        at_once, file = make_zones and parent is None, str(worker.path)
        zones = open_zones(config, workspace=workspace, user_home=user_home(), file=file, make=at_once)
        if parent is not None:
            zones = tuple(_open_child_zone(zone, parent, make_zones) for zone in zones)
    if parent is not None:
        brought = [zone for zone in brought if lies_within(zone.path, parent.zones)]
    brought = [zone for zone in brought if zone.mode is ZoneMode.RW or not _is_zone(zone.path, zones)]
    for zone in brought:
        if other := next((other for other in zones if other.name == zone.name), None):
            problem = f"zone '{zone.name}': a toolset of this worker brings a zone of that name"
            raise WorkerError(other.where, problem, hint="give yours another name")
    zones = distinct((*zones, *(open_zone(zone, user_home=user_home(), make=make_zones) for zone in brought)))
    zones = _add(zones, added)
    if spare is not None:
        zones = tuple(_use_spare_folder(zone, spare) for zone in zones)
    if read_only:
        zones = tuple(replace(zone, mode=ZoneMode.RO) for zone in zones)
    protected = [*own_files, *(parent.protected if parent else ())]
    isolation = capped_isolation(config.wanted(), parent.isolation) if parent else config.wanted()
    sandbox = Sandbox(zones, workspace=workspace, protected=protected, isolation=isolation)
    if parent is not None:
        sandbox.notified = parent.notified
    return sandbox


def _is_zone(folder: Path, zones: Sequence[Zone]) -> bool:
    """Is it the very folder of a zone, so that its files can be read there?"""
    real = Path(os.path.realpath(folder))
    return any(zone.path == real for zone in zones)


def _add(zones: tuple[Zone, ...], added: Sequence[Zone]) -> tuple[Zone, ...]:
    for zone in added:
        try:
            zones = distinct((*zones, open_zone(zone, user_home=user_home())))
        except WorkerError as error:
            hint = "name another folder, or give its zone in the worker another name"
            raise UsageError(f"--add-dir {zone.path}: {error.message}", hint=hint) from None
    return zones


def _use_spare_folder(zone: Zone, spare: Path) -> Zone:
    if zone.made:
        return zone
    folder = spare / zone.name
    folder.mkdir(exist_ok=True)
    return replace(zone, path=folder, made=True, stands_for=zone.path)


def _open_child_zone(zone: Zone, parent: Sandbox, make: bool) -> Zone:
    """Open a zone of a child worker; capped before its folder is made, and where that really came to lie."""
    made = open_zone(capped(zone, parent.zones), user_home=user_home(), make=make)
    return capped(made, parent.zones)


@dataclass(frozen=True)
class Assembly:
    """A worker ready to be worked with: its tools, and the gate before them."""

    toolbox: Toolbox
    guard: Guard
    requests: WorkerRequests | None = None
    """For what its servers ask of the session."""


async def assemble(
    worker: Worker,
    *,
    workspace: Path,
    host: PluginHost,
    controller: ApprovalController,
    interrupt: InterruptSignal,
    notify: Notify,
    stack: AsyncExitStack,
    parent: Assembly | None = None,
    make_zones: bool = True,
    spare: Path | None = None,
    home: Path | None = None,
    keeper: ChangeKeeper | None = None,
    added: Sequence[Zone] = (),
    read_only: bool = False,
    session: str = "",
) -> Assembly:
    """Open the sandbox and every toolset that the worker names, and nothing else; ``stack`` closes them.

    ``parent`` is the parent worker: it caps the zones, and what it blocks is blocked. Without
    ``make_zones`` calls can be judged, and nothing on disk changes; with a ``spare`` folder they can look, too.
    ``keeper`` keeps what files held before they are changed; a child worker's are kept by that of its parent.
    With ``read_only``, as in the child of a worker that has it, nothing is called that does more than read. ``session``
    is what hooks are told.
    """
    read_only = read_only or (parent is not None and parent.guard.judge.read_only)
    if read_only and make_zones:
        make_zones, spare = False, temporary_folder(stack)
    host = host.beside(worker)
    named = {name: host.toolset(name, worker.config.where("toolsets", name)) for name in worker.config.toolsets}
    for problem in host.problems(named) if parent is None else ():
        notify("warning", problem)
    for name, (cls, _) in named.items():
        if cls.imports:
            before_third_party(f"toolsets.{name}")
    home = home or forge_home()
    places = ToolsetPlaces(worker.folder, workspace, home)
    brought = [
        zone
        for name, (cls, plugin) in named.items()
        for zone in _declared(name, plugin, cls.zones_for, worker.section("toolsets", name), places)
    ]
    brought += [zone for toolset in worker.toolsets for zone in toolset.zones_for(toolset.config, places)]
    outer = parent.guard.sandbox if parent else None
    own = protected_files(worker, host)
    sandbox = open_sandbox(
        worker,
        workspace,
        own,
        brought,
        outer,
        make_zones=make_zones,
        spare=spare,
        added=added,
        read_only=read_only,
    )
    sandbox.keeper = outer.keeper if outer else keeper
    setting = _setting(worker, sandbox)
    where = sandbox.isolation.network_where
    files = _policy_files(worker, home, parent)
    network = NetworkConsent(
        worker=worker.name,
        workspace=str(workspace),
        setting=setting,
        where=where,
        controller=controller,
        interrupt=interrupt,
        policy_files=files,
    )
    processes = WorkerProcesses(sandbox, workspace=workspace, home=home, notify=notify, gate=network)
    settings = load_settings(home, workspace)
    policies = user_policies(host, settings, home)
    requests = WorkerRequests(worker=worker.name, controller=controller, interrupt=interrupt)
    env = ToolsetEnv(
        worker=worker.name,
        worker_dir=worker.folder,
        workspace=workspace,
        home=home,
        sandbox=sandbox.view(),
        processes=await stack.enter_async_context(processes),
        notify=notify,
        register=host.toolsets_of,
        session=requests,
    )
    toolbox = Toolbox([], notify, parent=parent.toolbox if parent else None, read_only=read_only)
    for name, (cls, plugin) in named.items():
        its_env = replace(env, parent=toolbox.parent_toolset(name), policy=policies(name, cls))
        toolbox.toolsets += await _open(worker, name, cls, plugin, its_env, stack)
    for toolset in worker.toolsets:
        its_env = replace(env, policy=policies(toolset.name, type(toolset)))
        toolbox.toolsets.append(await _enter(partial(toolset.for_session, its_env), toolset.name, PYTHON, stack))
    await toolbox.refresh()
    judge = Judge(
        offers=toolbox.offers,
        sandbox=sandbox,
        worker=worker.name,
        workspace=workspace,
        setting=setting,
        parent=parent.guard.judge if parent else None,
        read_only=read_only,
        policy_files=files,
    )
    hooks = Hooks(
        all=tuple(hooks_of(settings.hooks, home)),
        session=session,
        worker=worker.name,
        workspace=workspace,
        store=TrustStore(home),
        processes=processes,
        bus=controller.bus,
        find_observer=host.observer,
    )
    hooks.check(host.observer_names() if hooks.all else ())
    guard = Guard(
        judge=judge,
        controller=controller,
        bus=controller.bus,
        interrupt=interrupt,
        network=network,
        hooks=hooks if hooks.all else None,
        ask_person=partial(requests.ask_person, consent=False),
    )
    return Assembly(toolbox, guard, requests)


def temporary_folder(stack: AsyncExitStack) -> Path:
    """A folder for what must not change anything, gone with ``stack``."""
    return Path(stack.enter_context(TemporaryDirectory(prefix="forge-"))).resolve()


def _policy_files(worker: Worker, home: Path, parent: Assembly | None) -> dict[str, str]:
    """The files that rules may be written to; not those of forge itself, nor of a child, whose parent caps it."""
    files, named = {"user": str(home / "config.yaml")}, worker.config.where("name")
    was_read = named is not None and Path(named.file).name == worker.path.name and os.access(worker.path, os.W_OK)
    if was_read and parent is None and not worker.path.resolve().is_relative_to(_PACKAGE):
        files["worker"] = str(worker.path)
    return files


def _setting(worker: Worker, sandbox: Sandbox) -> str:
    """Equal where consent means the same: the same worker file, working directory, zones and isolation."""
    zones = [
        (zone.name, str(zone.path), zone.mode.value, zone.write.value, zone.delete.value) for zone in sandbox.zones
    ]
    isolation = sandbox.isolation.level.value, sandbox.isolation.network
    try:
        content = worker.content()
    except OSError:
        content = b""
    return digest_of(repr([digest_of(content), str(sandbox.workspace), zones, isolation]).encode())


def protected_files(worker: Worker, host: PluginHost) -> Iterator[Path]:
    """The files that say what a worker may do, and those of every worker among them, whether or not they exist.

    Whoever may change one of them may change what is allowed.
    """
    seen: set[Path] = set()
    waiting = [worker]
    while waiting:
        each = waiting.pop()
        if each.path.resolve() in seen:
            continue
        seen.add(each.path.resolve())
        yield each.path
        for path in _own_files(each, host):
            yield path
            if path.suffix in SUFFIXES or path.is_dir():
                with suppress(ForgeError):  # the toolset says what is wrong with it
                    waiting.append(load_worker(path))


def _own_files(worker: Worker, host: PluginHost) -> Iterator[Path]:
    yield from plugin_files(worker)
    for name in worker.config.toolsets:
        try:
            cls, plugin = host.toolset(name)
        except ForgeError:  # whoever opens the worker says what is wrong with it
            continue
        section = worker.section("toolsets", name)
        for part in section if isinstance(section, list) else [section]:
            yield from _declared(name, plugin, cls.own_files, part, worker.folder)


def _declared(name: str, plugin: Plugin, declare: Callable[..., Iterable[T]], *args: object) -> list[T]:
    """What a toolset class says of itself before it is opened; without that, nobody knows what has to be protected."""
    try:
        return call_within(LATER, "it", lambda: list(declare(*args)))
    except ForgeError:
        raise
    except BaseException as error:  # third-party code
        raise toolset_failure(
            name, plugin.source, None, f"{declare.__name__.removesuffix('_for')}() failed", error
        ) from error


def user_policies(host: PluginHost, settings: Settings, home: Path) -> Callable[[str, type[Toolset]], Config | None]:
    """What user and project say of toolsets, whichever worker uses them: by a toolset's name and class."""
    file = str(home / "config.yaml")
    known = [plugin.name for plugin in host.toolset_plugins()]
    for name in settings.policy:
        if name not in known:
            hint = did_you_mean(name, known, f"installed are {', '.join(known)}")
            raise WorkerError(settings.where("policy", name), f"policy.{name}: no such toolset", hint=hint)

    def policy(name: str, cls: type[Toolset]) -> Config | None:
        section = settings.section("policy", name)
        if section is None:
            return None
        if cls.Policy is None:
            raise WorkerError(settings.where("policy", name), f"policy.{name}: this toolset takes no policy")
        return parse_config(cls.Policy, section, at=("policy", name), file=file)

    return policy


async def _open(
    worker: Worker, name: str, cls: type[Toolset], plugin: Plugin, env: ToolsetEnv, stack: AsyncExitStack
) -> list[OpenToolset]:
    """Open the toolset of a section; one that may be used several times takes a list of sections."""
    where = worker.config.where("toolsets", name)
    section = worker.section("toolsets", name)
    listed = isinstance(section, list) and cls.repeatable
    opened: list[OpenToolset] = []
    for index, part in enumerate(section if listed else [{} if section is None else section]):
        at: Loc = ("toolsets", name, index) if listed else ("toolsets", name)
        plugin.announce()
        config = parse_config(cls.Config, part, at=at, file=str(worker.path))
        toolset = await _enter(partial(cls, config, env), name, plugin.source, stack, where)
        toolset.announce, toolset.digest = plugin.announce, plugin.digest
        opened.append(toolset)
    return opened


async def _enter(
    make: Callable[[], Toolset],
    name: str,
    source: Source,
    stack: AsyncExitStack,
    where: Mark | None = None,
) -> OpenToolset:
    try:
        toolset = call_within(OPENING, "making it", make)
        await wait_within(OPENING, "opening it", toolset.__aenter__)
    except ForgeError:
        raise
    except BaseException as error:  # third-party code: a toolset that cannot start
        raise toolset_failure(name, source, where, "it cannot start", error) from error
    opened = OpenToolset(toolset, source, where)
    stack.push_async_exit(opened.close)
    return opened
