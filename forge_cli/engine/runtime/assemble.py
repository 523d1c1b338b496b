"""The composition root: from a worker file to an open sandbox, open toolsets and the tools they offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from forge_cli.core.config import Loc, nearest, parse_config
from forge_cli.core.errors import ForgeError, Mark, ToolError, WorkerError
from forge_cli.core.interrupt import InterruptSignal
from forge_cli.core.schema import SchemaError
from forge_cli.core.tool import Source, Tool
from forge_cli.core.toolset import StatusLevel, Toolset, ToolsetEnv
from forge_cli.core.wire import error_text
from forge_cli.engine.gate.controller import ApprovalController
from forge_cli.engine.gate.guard import Guard
from forge_cli.engine.gate.judge import Offer
from forge_cli.engine.gate.policy import Policy
from forge_cli.engine.plugins.host import PluginHost
from forge_cli.engine.plugins.scan import Plugin
from forge_cli.files.allowed import files_of
from forge_cli.files.home import forge_home, user_home
from forge_cli.files.worker import Worker
from forge_cli.sandbox.files.caps import capped, capped_isolation, lies_within
from forge_cli.sandbox.files.sandbox import Sandbox
from forge_cli.sandbox.zones.zones import SandboxConfig, Zone, distinct, open_zone, open_zones

Notify = Callable[[StatusLevel, str], None]


def open_sandbox(
    worker: Worker,
    workspace: Path,
    brought: Sequence[Zone] = (),
    parent: Sandbox | None = None,
    *,
    make_zones: bool = True,
    spare: Path | None = None,
) -> Sandbox:
    """The zones that the worker declares, or the default one, and those that its toolsets bring.

    The worker's own files are protected in it. ``parent`` is the sandbox of the parent worker: without zones of its
    own a child has those of its parent, and its own are no wider. Without ``make_zones`` no folder is made;
    empty ones in ``spare`` stand for those that are missing.
    """
    section = worker.section("sandbox")
    config = parse_config(SandboxConfig, {} if section is None else section, at=("sandbox",), file=str(worker.path))
    if parent is not None and config.zones is None:
        zones = tuple(zone for zone in parent.zones if zone.name not in {each.name for each in brought})
    else:
        at_once, file = make_zones and parent is None, str(worker.path)
        zones = open_zones(config, workspace=workspace, user_home=user_home(), file=file, make=at_once)
        if parent is not None:
            zones = tuple(_open_child_zone(zone, parent, make_zones) for zone in zones)
    if parent is not None:
        brought = [zone for zone in brought if lies_within(zone.root, parent.zones)]
    for zone in brought:
        if other := next((other for other in zones if other.name == zone.name), None):
            problem = f"zone '{zone.name}': a toolset of this worker brings a zone of that name"
            raise WorkerError(other.where, problem, hint="give yours another name")
    zones = distinct((*zones, *(open_zone(zone, user_home=user_home(), make=make_zones) for zone in brought)))
    if spare is not None:
        zones = tuple(_stood_in(zone, spare) for zone in zones)
    protected = [*files_of(worker), *(parent.protected if parent else ())]
    isolation = capped_isolation(config.wanted(), parent.isolation) if parent else config.wanted()
    sandbox = Sandbox(zones, protected=protected, isolation=isolation)
    if parent is not None:
        sandbox.told = parent.told
    return sandbox


def _stood_in(zone: Zone, spare: Path) -> Zone:
    if zone.made:
        return zone
    folder = spare / zone.name
    folder.mkdir(exist_ok=True)
    return replace(zone, root=folder, made=True)


def _open_child_zone(zone: Zone, parent: Sandbox, make: bool) -> Zone:
    """Open a zone of a child worker; capped before its folder is made, and where that really came to lie."""
    made = open_zone(capped(zone, parent.zones), user_home=user_home(), make=make)
    return capped(made, parent.zones)


@dataclass
class OpenToolset:
    """A toolset at work for one worker."""

    toolset: Toolset
    source: Source
    where: Mark | None
    warned: set[str] = field(default_factory=set)
    known: dict[str, tuple[Tool, Offer]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.toolset.name

    async def offers(self, notify: Notify) -> list[Offer]:
        """Its tools right now: whitelisted, named, sound, each with the worker's policy for it."""
        tools = await self._tools()
        self._check_names([tool.name for tool in tools], notify)
        wanted = self._whitelist()
        return [self._offer(tool, notify) for tool in tools if wanted is None or tool.name in wanted]

    def _whitelist(self) -> list[str] | None:
        return None if self.toolset.picks else self.toolset.config.tools

    async def _tools(self) -> Sequence[Tool]:
        try:
            tools = list(await self.toolset.tools())
            if wrong := next((tool for tool in tools if not isinstance(tool, Tool)), None):
                raise SchemaError(f"its tools() gave {wrong!r}, which is no Tool")
            return tools
        except ForgeError:
            raise
        except (SchemaError, ToolError) as error:
            raise WorkerError(self.where, f"toolsets.{self.name}: {error}") from None
        except Exception as error:  # foreign code: a toolset that cannot list its tools
            problem = f"toolsets.{self.name}: its tools cannot be listed: {error_text(error)}"
            raise WorkerError(self.where, problem) from error

    def _check_names(self, offered: Sequence[str], notify: Notify) -> None:
        """What the worker says of tools that this toolset does not have, has no effect."""
        config, wanted = self.toolset.config, self._whitelist()
        listed = [(name, config.where("tools", index)) for index, name in enumerate(wanted or ())]
        judged = [(name, config.approval.where("tools", name)) for name in config.approval.tools]
        for name, where in [*listed, *judged]:
            if name not in offered:
                near = nearest(name, offered)
                remedy = f"did you mean '{near}'?" if near else f"it offers: {', '.join(offered) or 'nothing'}"
                self._no_effect(where, f"it has no tool '{name}'; {remedy}", notify)
            elif wanted is not None and name not in wanted:
                self._no_effect(where, f"'{name}' is not among the tools listed here; list it, or drop this", notify)

    def _offer(self, tool: Tool, notify: Notify) -> Offer:
        """A tool that is still the same object has been looked at before."""
        known = self.known.get(tool.name)
        if known is None or known[0] is not tool:
            known = self.known[tool.name] = (tool, self._new_offer(tool, notify))
        return known[1]

    def _new_offer(self, tool: Tool, notify: Notify) -> Offer:
        config = self.toolset.config
        policy = Policy.of(config.approval, tool.name, self.name)
        if policy.loosens(tool.needs_approval):
            problem = f"'{tool.name}' itself is stricter than that; a worker can tighten a tool's word, never loosen it"
            self._no_effect(config.approval.where("tools", tool.name), problem, notify)
        elif policy.idle(tool.needs_approval):
            problem = f"'{tool.name}' decides by its arguments; a worker can tighten its word, never loosen it"
            self.warn(config.approval.where("tools", tool.name), problem, notify)
        try:
            offered = replace(tool, name=prefixed(config.prefix, tool.name), source=tool.source or self.source)
        except SchemaError as error:
            raise WorkerError(config.where("prefix"), f"toolsets.{self.name}.prefix: {error}") from None
        try:
            _ = offered.schema
        except SchemaError as error:
            raise WorkerError(self.where, f"toolsets.{self.name}: the tool '{tool.name}' is unsound: {error}") from None
        return Offer(offered, self.name, policy, tool.name)

    def _no_effect(self, where: Mark | None, problem: str, notify: Notify) -> None:
        if not self.toolset.dynamic:
            raise WorkerError(where, f"toolsets.{self.name}: {problem}")
        self.warn(where, problem, notify)

    def warn(self, where: Mark | None, problem: str, notify: Notify) -> None:
        sentence = f"toolsets.{self.name}: {problem}"
        entry = str(where or sentence)
        if entry not in self.warned:
            self.warned.add(entry)
            notify("warning", f"{where}: {sentence}" if where else sentence)


def prefixed(prefix: str | None, name: str) -> str:
    if not prefix:
        return name
    return f"{prefix}{name}" if prefix.endswith(("_", "-")) else f"{prefix}_{name}"


@dataclass
class Toolbox:
    """Everything a worker can call; asked anew before every turn."""

    toolsets: list[OpenToolset]
    notify: Notify
    offers: dict[str, Offer] = field(default_factory=dict)
    above: Toolbox | None = None
    """That of the worker that called this one."""

    async def refresh(self) -> dict[str, Offer]:
        found: dict[str, Offer] = {}
        for opened in self.toolsets:
            for offer in await opened.offers(self.notify):
                other = found.setdefault(offer.tool.name, offer)
                if other is not offer:
                    found[offer.tool.name] = self._winner(other, offer, opened)
        self.offers.clear()
        self.offers.update(found)
        return self.offers

    def toolset_above(self, name: str) -> Toolset | None:
        """The toolset of that name of the nearest worker above that has it."""
        box = self.above
        while box:
            for opened in box.toolsets:
                if opened.name == name:
                    return opened.toolset
            box = box.above
        return None

    def _winner(self, first: Offer, second: Offer, opened: OpenToolset) -> Offer:
        """Two tools of one name are an error, unless one of them is of a kind that may replace others."""
        replacing = {other.name for other in self.toolsets if other.toolset.replaces}
        if (first.toolset in replacing) == (second.toolset in replacing):
            raise _clash(first, second, opened.where)
        winner, loser = (first, second) if first.toolset in replacing else (second, first)
        opened.warn(None, f"'{winner.tool.name}' of {winner.toolset} replaces the one of {loser.toolset}", self.notify)
        return winner

    def instructions(self) -> list[str]:
        return [text for opened in self.toolsets if (text := opened.toolset.instructions())]


def _clash(first: Offer, second: Offer, where: Mark | None) -> WorkerError:
    if first.toolset == second.toolset:
        return WorkerError(where, f"toolsets.{first.toolset}: it offers two tools called '{first.tool.name}'")
    both = " and ".join(f"'{offer.toolset}' ({offer.tool.source})" for offer in (first, second))
    hint = f"give one of them a prefix, as in {second.toolset}: {{prefix: {second.toolset}}}"
    return WorkerError(where, f"two toolsets offer a tool called '{first.tool.name}': {both}", hint=hint)


@dataclass(frozen=True)
class Assembly:
    """A worker ready to be worked with: its tools, and the gate before them."""

    toolbox: Toolbox
    guard: Guard


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
) -> Assembly:
    """Open the sandbox and every toolset that the worker names, and nothing else; ``stack`` closes them.

    ``parent`` is the parent worker: it caps the zones, and what it blocks is blocked. Without
    ``make_zones`` calls can be judged, and nothing on disk changes; with a ``spare`` folder they can look, too.
    """
    named = {name: host.toolset(name, worker.config.where("toolsets", name)) for name in worker.config.toolsets}
    brought = [zone for cls, _ in named.values() for zone in cls.zones(forge_home())]
    outer = parent.guard.sandbox if parent else None
    sandbox = open_sandbox(worker, workspace, brought, outer, make_zones=make_zones, spare=spare)
    env = ToolsetEnv(
        worker=worker.name,
        worker_dir=worker.folder,
        workspace=workspace,
        home=forge_home(),
        sandbox=sandbox,
        notify=notify,
    )
    toolbox = Toolbox([], notify, above=parent.toolbox if parent else None)
    for name, (cls, plugin) in named.items():
        own = replace(env, above=toolbox.toolset_above(name))
        toolbox.toolsets += await _open(worker, name, cls, plugin, own, stack)
    await toolbox.refresh()
    guard = Guard(
        offers=toolbox.offers,
        controller=controller,
        bus=controller.bus,
        interrupt=interrupt,
        sandbox=sandbox,
        workspace=workspace,
        worker=worker.name,
        ceiling=parent.guard if parent else None,
    )
    return Assembly(toolbox, guard)


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
        config = parse_config(cls.Config, part, at=at, file=str(worker.path))
        try:
            toolset = await stack.enter_async_context(cls(config, env))
        except ForgeError:
            raise
        except Exception as error:  # foreign code: a toolset that cannot start
            raise WorkerError(where, f"toolsets.{name}: it cannot start: {error_text(error)}") from error
        opened.append(OpenToolset(toolset, plugin.source, where))
    return opened
