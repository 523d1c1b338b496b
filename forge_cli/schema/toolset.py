"""Toolsets: related tools with a section in the worker file and one instance per session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import isawaitable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, get_args, get_origin

from msgspec import Struct
from pydantic import Field, field_validator
from typing_extensions import TypeVar

from forge_cli.core.approval import Approval
from forge_cli.core.errors import SchemaError, ToolError
from forge_cli.core.source import Output
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.tool import BY_NAME, OPTIONS, Tool
from forge_cli.schema.tool_fields import PlainApply, PlainCall, approval_named, positional_count

if TYPE_CHECKING:
    from forge_cli.core.approval import GrantRule
    from forge_cli.core.locking import LockEntry
    from forge_cli.core.notify import Notify
    from forge_cli.core.processes import Processes
    from forge_cli.core.requests import PromptSpec, ResourceSpec, SessionRequests
    from forge_cli.core.sandbox import SandboxView
    from forge_cli.core.zones import Zone
    from forge_cli.schema.own_thread import OwnThread


class ApprovalConfig(Config):
    """Consent for the tools of one toolset."""

    default: Approval | None = None
    """The approval of tools without their own verdict."""
    tools: dict[str, Approval] = Field(default_factory=dict)
    """Approvals by tool name; they can tighten a tool's own verdict, never loosen it."""


class ToolsetConfig(Config):
    """The section of a toolset in the worker file; toolsets with settings derive from it."""

    approval: ApprovalConfig = Field(default_factory=ApprovalConfig.empty)
    """Consent for the tools of this toolset."""
    tools: list[str] | None = None
    """The only tools of the toolset that are offered."""
    prefix: str | None = None
    """A prefix for the names of its tools."""

    @field_validator("tools")
    @classmethod
    def _listed_once(cls, tools: list[str] | None) -> list[str] | None:
        for index, name in enumerate(tools or ()):
            if name in (tools or ())[:index]:
                raise ValueError(f"'{name}' is listed twice; keep one")
        return tools


PolicyConfig = Config
T = TypeVar("T")


def _without_registering(plugin: Any, name: str) -> Sequence[type[Toolset]]:
    """Return the toolsets of a plugin when there is no plugin host."""
    offered: Sequence[type[Toolset]] = plugin.forge_toolsets()
    return offered


def _no_session() -> SessionRequests:
    from forge_cli.core.requests import NoSession

    return NoSession()


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolsetEnv:
    """The facts about a worker for its toolsets, and its parts that they can use."""

    worker: str
    worker_dir: Path
    workspace: Path
    home: Path
    open_sandbox: Callable[[], SandboxView]
    """Returns ``sandbox``; its modules are loaded at the first use."""
    open_processes: Callable[[], Processes]
    """Returns ``processes``; its modules are loaded at the first use."""
    notify: Notify
    policy: Any = None
    """The user's policy for this toolset, parsed by its ``Policy``; None without one."""
    register: Callable[[object, str], Sequence[type[Toolset]]] = _without_registering
    """Registers a local module under a name like a plugin, and returns its toolsets."""
    parent: Any = None
    """The same toolset of the nearest parent worker with it; calls that it blocks stay blocked."""
    open_session: Callable[[], SessionRequests] = _no_session
    """Returns ``session``."""
    toolset: str = ""
    """The name of the toolset that gets this."""
    run_elsewhere: bool = False
    """True if another program makes the calls of the worker, so that they are only judged."""
    check_code: Callable[[Any], None] | None = None
    """Refuses local code that does not match the worker's lock; None without a lock."""

    @property
    def sandbox(self) -> SandboxView:
        """The sandbox outside of calls; access that asks is refused. See ``context.sandbox``."""
        return self.open_sandbox()

    @property
    def processes(self) -> Processes:
        """The child processes of the worker."""
        return self.open_processes()

    @property
    def session(self) -> SessionRequests:
        """The session, for requests of the toolset's server to the model or the person."""
        return self.open_session()

    @property
    def data(self) -> Path:
        """A private folder of the toolset, created at the first use."""
        # Without separators or a leading dot, so that the folder is always inside of ``data``.
        folder = self.home / "data" / re.sub(r"[^\w.-]|^\.", "_", self.toolset or "unnamed")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


class ToolsetPlaces(Struct, frozen=True):
    """The folders of a toolset."""

    worker_dir: Path
    workspace: Path
    home: Path
    """The home of forge."""


ConfigT = TypeVar("ConfigT", bound=ToolsetConfig, default=Any)


class Toolset(Generic[ConfigT]):
    """Tools that share settings, a connection or state; a subclass marks its tools with ``@tool``.

    One instance serves one session. ``async with`` manages its connections and processes: enter
    them in ``self.stack``. ``class Notes(Toolset[NotesConfig])`` gets its section of the worker
    file as ``self.config``, parsed by that class.
    """

    name: ClassVar[str]
    """The name of the toolset in a worker file, and of its entry point."""
    Config: ClassVar[type[ToolsetConfig]] = ToolsetConfig
    """The class that parses its section; ``Toolset[NotesConfig]`` sets it."""
    Policy: ClassVar[type[PolicyConfig] | None] = None
    """The class that parses ``policy.NAME`` in the user's config.yaml; see ``env.policy``."""
    dynamic: ClassVar[bool] = False
    """True if the tools come from elsewhere and may change between turns."""
    replaces: ClassVar[bool] = False
    """True if its tools may replace tools of other toolsets with the same name, with a warning."""
    repeatable: ClassVar[bool] = False
    """True if the worker file may contain a list of sections, each opened separately."""
    picks: ClassVar[bool] = False
    """True if the toolset reads ``tools:`` itself, because the entries are not names of tools."""
    needs_zone: ClassVar[bool] = False
    """True if the worker cannot start without a zone, because the tools need one."""
    judges_only: ClassVar[bool] = False
    """True if another program makes the calls of workers with this toolset: nothing confines its
    commands, which see its environment. Lines of ``shell`` are judged accordingly."""
    thread: ClassVar[Literal["pool", "own"]] = "pool"
    """``own``: synchronous tools share one thread, for libraries that are bound to a thread."""
    output: ClassVar[Output | None] = None
    """What its results are, for tools that do not say it: ``untrusted`` or ``trusted``."""
    imports: ClassVar[bool] = False
    """True if its section names code to import, which is third-party code."""

    own_sandbox: SandboxView | None = None
    """The sandbox that a program passed to it; the worker uses it as well."""
    env: ToolsetEnv

    config: ConfigT
    """Its section of the worker file."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        stated = [
            get_args(base)[0]
            for base in getattr(cls, "__orig_bases__", ())
            if is_toolset(get_origin(base))
        ]
        if stated and "Config" not in vars(cls) and isinstance(stated[0], type):
            cls.Config = stated[0]

    def __init__(
        self, config: ConfigT | Mapping[str, Any] | None = None, env: ToolsetEnv | None = None
    ) -> None:
        """Create a toolset with settings as in the worker file; ``env`` is set when it opens."""
        read: Any = config
        if config is None or isinstance(config, Mapping):
            read = parse_config(self.Config, dict(config or {}), at=("toolsets", self.name))
        self.config = read
        if env is not None:
            if env.toolset != self._title:
                env = replace(env, toolset=self._title)
            self.env = env

    @property
    def _title(self) -> str:
        """The name of the toolset; a local one may have none."""
        return getattr(self, "name", type(self).__name__)

    def for_session(self, env: ToolsetEnv) -> Self:
        """Return a copy for one session of a toolset that a program created."""
        mine = copy(self)
        # Cached properties belong to a session: connections, and the stack that closes them.
        for name in list(vars(mine)):
            if isinstance(getattr(type(mine), name, None), cached_property):
                del vars(mine)[name]
        mine.env = replace(env, toolset=self._title)
        return mine

    @cached_property
    def stack(self) -> AsyncExitStack:
        """Closes everything that is entered in it when the session ends."""
        return AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stack.__aexit__(kind, error, trace)

    async def tools(self) -> Sequence[Tool]:
        """Return the tools, before every turn; by default the methods marked with ``@tool``."""
        return self._marked

    @cached_property
    def _marked(self) -> list[Tool]:
        where = self.in_thread if self.thread == "own" else None
        found: list[Tool] = []
        for name in _tool_methods(type(self)):
            method = getattr(self, name)
            made = Tool.from_function(method, in_thread=where, **dict(self._own(method)))
            made.output = made.output or self.output
            found.append(made)
        return found

    @cached_property
    def _thread(self) -> OwnThread:
        from forge_cli.schema.own_thread import OwnThread

        thread = OwnThread(f"toolset {self._title}")
        self.stack.callback(thread.stop)
        return thread

    async def in_thread(self, function: Callable[..., T], /, *args: Any, **more: Any) -> T:
        """Call a function where synchronous tools run: in the toolset's own thread, if any."""
        if self.thread == "own":
            return await self._thread.run(function, *args, **more)
        from forge_cli.core.bounds import run_in_thread

        return await run_in_thread(function, *args, **more)

    def _own(self, method: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
        """Yield the methods that ``@tool`` named, as methods.

        A tool of the toolset does not count, because an approval may have the same name.
        """
        for key in BY_NAME:
            name = getattr(method, OPTIONS).get(key)
            if not isinstance(name, str):
                continue
            named = getattr(self, name, None)
            if callable(named) and not hasattr(named, OPTIONS):
                yield key, self._in_own_thread(key, named)
            elif key != "needs_approval" or approval_named(name) is None:
                title = f"{method.__name__}: {key} names the method '{name}'"
                raise SchemaError(f"{title}, which {type(self).__name__} does not have")

    def _in_own_thread(self, key: str, named: Callable[..., Any]) -> Any:
        """Return a preview or ``apply`` that runs in the toolset's own thread, if it has one."""
        if self.thread != "own":
            return named
        if key == "apply":
            return PlainApply(named, self.in_thread)
        if key == "preview" and (taken := positional_count(named)):
            return PlainCall(named, taken == 2, self.in_thread)
        return named

    @classmethod
    def zones(cls, home: Path) -> Sequence[Zone]:
        """Return zones that the toolset adds for the file tools; ``home`` is forge's own."""
        return ()

    @classmethod
    def zones_for(cls, config: Any, places: ToolsetPlaces) -> Sequence[Zone]:
        """Return zones that depend on the parsed section or on the folders of the toolset."""
        return cls.zones(places.home)

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterable[Path]:
        """Return files that determine the behavior of the toolset; writing one always asks.

        The files need not exist, and ``*`` matches any name. ``config`` is the section, parsed by
        ``Config``; ``folder`` is the folder of the worker file.
        """
        return ()

    @classmethod
    def machine_needs(cls, config: Any, home: Path) -> Mapping[str, str]:
        """Return the requirements on this machine, by name and version, besides the worker.

        A machine that runs items of a batch must have the same. ``config`` is as for ``own_files``.
        """
        return {}

    @classmethod
    def parts_for(cls, config: Any, places: ToolsetPlaces) -> Iterable[LockEntry]:
        """Return parts for a lock besides the toolset's code, without starting or importing any."""
        return ()

    async def parts(self) -> Iterable[LockEntry]:
        """Return parts for a lock that are known once the toolset is open, besides its tools."""
        return ()

    async def prompts(self) -> Sequence[PromptSpec]:
        """Return messages that a person can send with a slash command."""
        return ()

    async def get_prompt(self, name: str, args: Mapping[str, str]) -> Any:
        """Return the message of one of its ``prompts``, as any value that a tool may return.

        Raise ToolError for invalid arguments.
        """
        raise ToolError(f"there is no prompt '{name}'")

    async def complete_prompt(self, name: str, argument: str, text: str) -> Sequence[str]:
        """Return completions of ``text`` for an argument of a prompt."""
        return ()

    async def resources(self) -> Sequence[ResourceSpec]:
        """Return data that clients of a served worker can read without a call."""
        return ()

    async def read_resource(self, uri: str, args: Mapping[str, str]) -> Any:
        """Return the content of one of its ``resources``; ``args`` are its template values."""
        raise ToolError(f"there is no resource '{uri}'")

    async def handle_command(self, args: Sequence[str]) -> Sequence[str]:
        """Handle a command with the toolset's name, such as ``/mcp``; return lines of text."""
        raise ToolError(f"the toolset {self._title} has no command")

    def rule_kept(self, rule: GrantRule) -> None:
        """Apply a rule that the person has just kept, or refused, in their config.

        ``rule.at`` is a place in the toolset's section of ``policy``, ``rule.says`` the value
        there.
        """

    def instructions(self) -> str | None:
        """Return a paragraph for the system prompt, if the tools need one."""
        return None


async def settled(given: Any) -> Any:
    """Return the result of a toolset's function, whether async or not."""
    return await given if isawaitable(given) else given


async def tools_of(toolset: Toolset) -> list[Tool]:
    """Return the tools of a toolset; raise SchemaError if ``tools()`` returns anything else."""
    found = await settled(toolset.tools())
    tools: list[Any] = [found]
    if isinstance(found, Iterable):
        tools = list(found)
    if wrong := [tool for tool in tools if not isinstance(tool, Tool)]:
        raise SchemaError(
            f"tools() of '{type(toolset).__name__}' returned {wrong[0]!r}, which is not a Tool"
        )
    return tools


def is_toolset(cls: Any) -> bool:
    """Return True for a subclass of ``Toolset``."""
    return isinstance(cls, type) and issubclass(cls, Toolset)


def _tool_methods(cls: type[Toolset]) -> list[str]:
    """Return the names of the marked methods in the order of their definition, base classes first.

    A subclass removes a tool if it overrides the method without a mark, or with None.
    """
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if hasattr(value, OPTIONS):
                names[name] = None
    return [name for name in names if hasattr(getattr(cls, name), OPTIONS)]
