"""The toolbox: the tools that a worker can call right now, with the worker's policy for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import structs

from forge_cli.core.bounds import CALL_LIMIT, call_within, fault_text, wait_within
from forge_cli.core.errors import ForgeError, LockError, Mark, SchemaError, ToolError, WorkerError
from forge_cli.core.source import Source
from forge_cli.core.text import cut, did_you_mean, visible
from forge_cli.engine.gate.offer import Offer
from forge_cli.engine.gate.policy import UNBOUND, Policy
from forge_cli.files.settings_files import import_timeout
from forge_cli.schema.config import parse_config
from forge_cli.schema.tool import Tool, llm_tools
from forge_cli.schema.toolset import Toolset, ToolsetConfig, tools_of

if TYPE_CHECKING:
    from forge_cli.core.approval import GrantRule
    from forge_cli.core.notify import Notify
    from forge_cli.engine.plugins.scan import Plugin
    from forge_cli.files.worker import Worker
    from forge_cli.schema.marks import Loc

T = TypeVar("T")
MAX_ORIGIN = 80
"""The most characters that a toolset may add to the source of a tool."""


@dataclass(eq=False)
class OpenToolset:
    """An open toolset of one worker."""

    toolset: Toolset
    source: Source
    where: Mark | None
    announce: Callable[[], None] | None = None
    """Called before code of a toolset that may be third-party."""
    digest: str | None = None
    """The content that its tools are bound to, unless they name their own."""
    warned: set[str] = field(default_factory=set)
    good: list[Offer] | None = None
    """The last list of offers without an error."""
    known: dict[str, tuple[Tool, Offer]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.toolset.name

    @property
    def title(self) -> str:
        return toolset_title(self.name, self.source)

    async def offers(self, notify: Notify) -> list[Offer]:
        """Return its present tools; if it fails during a session, the ones that it had before.

        A tool that does not match the lock ends the session.
        """
        try:
            self.good = await self._offers(notify)
        except ForgeError as error:
            if self.good is None or isinstance(error, LockError):
                raise
            self.warn(None, f"{error.message}; keeping its previous tools", notify)
        return self.good

    async def _offers(self, notify: Notify) -> list[Offer]:
        """Return its selected tools, each with the worker's policy."""
        tools = await self._tools()
        self._check_names([tool.name for tool in tools], notify)
        wanted = self._whitelist()
        return [
            self._offer(tool, notify) for tool in tools if wanted is None or tool.name in wanted
        ]

    def _whitelist(self) -> list[str] | None:
        return None if self.toolset.picks else self.toolset.config.tools

    async def _tools(self) -> Sequence[Tool]:
        if self.announce:
            self.announce()
        try:
            # The first list may import libraries, which takes longer.
            seconds = import_timeout() if self.good is None else CALL_LIMIT
            return await wait_within(seconds, "tools()", tools_of, self.toolset, of=self.title)
        except ForgeError:
            raise
        except (SchemaError, ToolError) as error:
            raise WorkerError(self.where, f"{self.title}: {error}") from None
        except Exception as error:  # third-party code: a toolset that cannot list its tools
            raise self.failure("its tools cannot be listed", error) from error

    async def ask(
        self,
        problem: str,
        what: str,
        function: Callable[..., Awaitable[T]],
        *args: Any,
        seconds: float = CALL_LIMIT,
    ) -> T:
        """Await a function of the toolset within its time limit; raise WorkerError if it fails."""
        try:
            return await wait_within(seconds, what, function, *args, of=self.title)
        except (ForgeError, ToolError):
            raise
        except Exception as error:  # third-party code
            raise self.failure(problem, error) from error

    def failure(self, what: str, error: BaseException) -> WorkerError:
        return toolset_failure(self.name, self.source, self.where, what, error)

    def instructions(self) -> str | None:
        try:
            said = call_within(
                CALL_LIMIT, f"instructions() of {self.title}", self.toolset.instructions
            )
            return None if said is None else str(said)
        except Exception as error:  # third-party code
            raise self.failure("its instructions cannot be read", error) from error

    def report_saved_rule(self, rule: GrantRule, notify: Notify) -> None:
        try:
            call_within(CALL_LIMIT, f"rule_kept() of {self.title}", self.toolset.rule_kept, rule)
        except Exception as error:  # third-party code
            self.warn(
                None, f"'{rule}' applies only from the next session on: {fault_text(error)}", notify
            )

    async def close(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the toolset; raise WorkerError if that fails."""
        try:
            await wait_within(
                CALL_LIMIT, "__aexit__()", self.toolset.__aexit__, kind, error, trace, of=self.title
            )
        except Exception as problem:  # third-party code
            # ``__aexit__`` may raise the error of the session again, which is reported elsewhere.
            if problem is not error:
                raise self.failure("it cannot be closed", problem) from problem

    def _check_names(self, offered: Sequence[str], notify: Notify) -> None:
        """Warn about settings for tools that this toolset does not have."""
        config = self.toolset.config
        wanted = self._whitelist()
        listed = [(name, config.where("tools", index)) for index, name in enumerate(wanted or ())]
        judged = [(name, config.approval.where("tools", name)) for name in config.approval.tools]
        left_out = [f"{each}__" for each in getattr(self.toolset, "left_out", dict)()]
        for name, where in [*listed, *judged]:
            if f"{name}__".startswith(tuple(left_out)):
                continue
            if name not in offered:
                remedy = f"it offers: {', '.join(offered) or 'nothing'}"
                if self.toolset.picks:
                    remedy = "list it, or remove this entry"
                remedy = did_you_mean(name, offered, remedy)
                self._no_effect(where, f"it has no tool '{name}'; {remedy}", notify)
            elif wanted is not None and name not in wanted:
                problem = (
                    f"'{name}' is not among the tools listed here; list it, or remove this entry"
                )
                self._no_effect(where, problem, notify)

    def _offer(self, tool: Tool, notify: Notify) -> Offer:
        """Return the offer of a tool; the same object keeps the same offer."""
        known = self.known.get(tool.name)
        if known is None or known[0] is not tool:
            known = self.known[tool.name] = (tool, self._new_offer(tool, notify))
        return known[1]

    def _new_offer(self, tool: Tool, notify: Notify) -> Offer:
        config = self.toolset.config
        caution = None if tool.bound_to_zones else UNBOUND
        policy = Policy.of(config.approval, tool.name, self.name, caution)
        if policy.loosens(tool):
            problem = (
                f"'{tool.name}' itself is stricter than that;"
                " a worker can tighten a tool's verdict, never loosen it"
            )
            self._no_effect(config.approval.where("tools", tool.name), problem, notify)
        elif policy.idle(tool):
            problem = (
                f"'{tool.name}' decides by its arguments;"
                " a worker can tighten its verdict, never loosen it"
            )
            self.warn(config.approval.where("tools", tool.name), problem, notify)
        try:
            offered = replace(
                tool,
                name=prefixed(config.prefix, tool.name),
                source=_with_origin(tool.source or self.source, tool.origin),
                digest=tool.digest or self.digest,
            )
        except SchemaError as error:
            raise WorkerError(
                config.where("prefix"), f"toolsets.{self.name}.prefix: {error}"
            ) from None
        try:
            # The copy takes over the schema, since making one costs more than all else here.
            vars(offered)["schema"] = tool.schema
        except SchemaError as error:
            raise WorkerError(
                self.where, f"toolsets.{self.name}: the tool '{tool.name}' is unsound: {error}"
            ) from None
        return Offer(offered, self.name, policy, tool.name)

    def _no_effect(self, where: Mark | None, problem: str, notify: Notify) -> None:
        if not self.toolset.dynamic:
            raise WorkerError(where, f"toolsets.{self.name}: {problem}")
        self.warn(where, problem, notify)

    def warn(self, where: Mark | None, problem: str, notify: Notify) -> None:
        sentence = problem
        if not problem.startswith(self.title):
            sentence = f"toolsets.{self.name}: {problem}"
        # Once for each place: the tools are listed again before every turn.
        entry = str(where or sentence)
        if entry not in self.warned:
            self.warned.add(entry)
            notify("warning", f"{where}: {sentence}" if where else sentence)


def toolset_title(name: str, source: Source) -> str:
    """Return the name of a toolset for errors, with its distribution if that is not forge."""
    if source.kind == "builtin":
        return f"toolsets.{name}"
    return f"toolsets.{name} ({source.origin})"


def toolset_failure(
    name: str, source: Source, where: Mark | None, what: str, error: BaseException
) -> WorkerError:
    """Return the error for an exception in code of a toolset.

    During an inspection, the message says so if that may be the reason.
    """
    from forge_cli.sandbox.processes.inherited import inherited_confinement

    because = ""
    if inherited_confinement() and _is_system_error(error):
        because = f" ({INSPECTION_LIMITS})"
    return WorkerError(
        where, f"{toolset_title(name, source)}: {what}: {fault_text(error)}{because}"
    )


def prefixed(prefix: str | None, name: str) -> str:
    """Return the name of a tool with the prefix of its toolset."""
    if not prefix:
        return name
    if prefix.endswith(("_", "-")):
        return f"{prefix}{name}"
    return f"{prefix}_{name}"


@dataclass(eq=False)
class Toolbox:
    """Everything that a worker can call, updated before every turn."""

    toolsets: list[OpenToolset]
    notify: Notify
    offers: dict[str, Offer] = field(default_factory=dict)
    parent: Toolbox | None = None
    """The toolbox of the parent worker."""
    read_only: bool = False
    """True if only read-only tools are offered; the gate blocks the others in any case."""
    admit: Callable[[OpenToolset, Offer], bool] | None = None
    """Returns True if a lock file allows the tool."""
    saved_rules: list[GrantRule] = field(default_factory=list)
    """The saved rules that were reported to its toolsets."""

    @property
    def usable(self) -> list[Tool]:
        """The tools that can be called at all."""
        return [offer.tool for offer in self.offers.values() if self.is_usable(offer)]

    def is_usable(self, offer: Offer) -> bool:
        return not self.read_only or offer.tool.fits_read_only

    def for_model(self, offers: Iterable[Offer]) -> list[Tool]:
        """Return the tools among ``offers`` that the model may call."""
        return llm_tools([offer.tool for offer in offers if self.is_usable(offer)])

    async def refresh(self) -> dict[str, Offer]:
        found: dict[str, Offer] = {}
        for opened in self.toolsets:
            for offer in await opened.offers(self.notify):
                if self.admit and self.is_usable(offer) and not self.admit(opened, offer):
                    continue
                other = found.setdefault(offer.tool.name, offer)
                if other is not offer:
                    found[offer.tool.name] = choose(self, other, offer, opened)
        # In place, because the judge has the same mapping.
        self.offers.clear()
        self.offers.update(found)
        return self.offers

    def parent_toolset(self, name: str) -> Toolset | None:
        """Return the toolset of this name of the nearest parent worker that has it, or None."""
        box = self.parent
        while box:
            for opened in box.toolsets:
                if opened.name == name:
                    return opened.toolset
            box = box.parent
        return None

    def report_saved_rule(self, rule: GrantRule) -> None:
        """Report a rule, or its refusal, that a person has just saved, to its toolset."""
        self.saved_rules.append(rule)
        for opened in self.toolsets:
            if rule.at[:2] == ("policy", opened.name):
                opened.report_saved_rule(structs.replace(rule, at=rule.at[2:]), self.notify)

    def instructions(self) -> list[str]:
        return [text for opened in self.toolsets if (text := opened.instructions())]


def _with_origin(source: Source, added: str | None) -> Source:
    """Return the source with the toolset's addition for this tool."""
    if not added:
        return source
    return replace(source, origin=f"{source.origin} ({visible(cut(added, MAX_ORIGIN, 'end'))})")


INSPECTION_LIMITS = (
    "an inspection is read-only, without network and with little of the home:"
    " do this when a tool is first called"
)


def _is_system_error(error: BaseException | None) -> bool:
    """Return True if a file, a folder or the network caused an error."""
    seen: list[BaseException] = []
    # A chain of causes may be circular.
    while error is not None and error not in seen:
        # By name, because few sessions import sqlite3.
        if isinstance(error, OSError) or type(error).__module__ == "sqlite3":
            return True
        seen.append(error)
        error = error.__cause__ or error.__context__
    return False


def choose(toolbox: Toolbox, first: Offer, second: Offer, opened: OpenToolset) -> Offer:
    """Return one of two tools with the same name.

    If they clash only during a session, return the one that was there before.
    """
    try:
        return _winner(toolbox, first, second, opened)
    except WorkerError as clash:
        known = toolbox.offers.get(first.tool.name)
        if known is None:
            raise
        opened.warn(None, f"{clash.message}; keeping the first one", toolbox.notify)
        return second if second.toolset == known.toolset else first


def _winner(toolbox: Toolbox, first: Offer, second: Offer, opened: OpenToolset) -> Offer:
    """Return the tool of the toolset that may replace others.

    It asks unless the worker approves it by name.
    """
    replacing = {other.name for other in toolbox.toolsets if other.toolset.replaces}
    if (first.toolset in replacing) == (second.toolset in replacing):
        raise _clash(first, second, opened.where)
    winner = first
    loser = second
    if second.toolset in replacing:
        winner = second
        loser = first
    opened.warn(
        None,
        f"'{winner.tool.name}' of {winner.toolset} replaces the one of {loser.toolset}",
        toolbox.notify,
    )
    return replace(winner, policy=winner.policy.replacing(loser.toolset))


def _clash(first: Offer, second: Offer, where: Mark | None) -> WorkerError:
    if first.toolset == second.toolset:
        return WorkerError(
            where, f"toolsets.{first.toolset}: it offers two tools called '{first.tool.name}'"
        )
    both = " and ".join(f"'{offer.toolset}' ({offer.tool.source})" for offer in (first, second))
    hint = f"give one of them a prefix, as in {second.toolset}: {{prefix: {second.toolset}}}"
    return WorkerError(
        where, f"two toolsets offer a tool called '{first.tool.name}': {both}", hint=hint
    )


class NamedToolset:
    """A toolset that a worker names: its class and its plugin."""

    def __init__(self, worker: Worker, name: str, cls: type[Toolset], plugin: Plugin) -> None:
        self.name = name
        self.cls = cls
        self.plugin = plugin
        self.where: Mark | None = worker.config.where("toolsets", name)
        self._section: Any = worker.section("toolsets", name)
        self.offers: dict[int, dict[str, tuple[Tool, Offer]]] = {}
        """By the identity of its settings: the offers of its tools so far."""

    @cached_property
    def configs(self) -> tuple[ToolsetConfig, ...]:
        """Its settings; a repeatable toolset may have a list of them."""
        if isinstance(self._section, list) and self.cls.repeatable:
            return tuple(self._read(part, index) for index, part in enumerate(self._section))
        return (self._read({} if self._section is None else self._section, None),)

    def require_settings(self) -> tuple[ToolsetConfig, ...]:
        """Return its settings; raise WorkerError if they are invalid."""
        return self.configs

    def _read(self, part: Any, index: int | None) -> ToolsetConfig:
        at: Loc = ("toolsets", self.name) if index is None else ("toolsets", self.name, index)
        self.plugin.announce()
        return parse_config(self.cls.Config, part, at=at, file=self.where)

    def declared(self, declare: Callable[..., Iterable[T]], *args: object) -> list[T]:
        """Return the results of a class method for each of its settings, before it is open."""
        try:
            title = toolset_title(self.name, self.plugin.source)
            declared: list[T] = []
            for config in self.configs:
                # A generator runs only in ``list``, which therefore has to be within the limit.
                declared += call_within(
                    CALL_LIMIT, title, lambda config=config: list(declare(config, *args))
                )
            return declared
        except ForgeError:
            raise
        except Exception as error:  # third-party code
            what = f"{declare.__name__.removesuffix('_for')}() failed"
            raise toolset_failure(self.name, self.plugin.source, None, what, error) from error
