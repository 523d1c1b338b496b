"""A toolset: tools that belong together, with a section of their own in the worker file and a life of one session."""

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
from forge_cli.schema.config import Config, parse_config
from forge_cli.schema.tool import BY_NAME, OPTIONS, Tool
from forge_cli.schema.tool_fields import approval_named

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
    """Consent for the tools of one toolset: for those without a verdict of their own, and to tighten those verdicts."""

    default: Approval | None = None
    """For tools that say nothing themselves."""
    tools: dict[str, Approval] = Field(default_factory=dict)
    """By the tool's name; it can tighten a tool's own verdict, never loosen it."""


class ToolsetConfig(Config):
    """The section of a toolset in the worker file; a toolset with settings of its own derives from this."""

    approval: ApprovalConfig = Field(default_factory=ApprovalConfig.empty)
    """Consent for the tools of this toolset."""
    tools: list[str] | None = None
    """Only these tools of the toolset are offered."""
    prefix: str | None = None
    """Put before the names of its tools."""

    @field_validator("tools")
    @classmethod
    def _listed_once(cls, tools: list[str] | None) -> list[str] | None:
        if twice := next(
            (name for index, name in enumerate(tools or ()) if name in (tools or ())[:index]), None
        ):
            raise ValueError(f"'{twice}' is listed twice; keep one")
        return tools


PolicyConfig = Config
T = TypeVar("T")


def _without_registering(plugin: Any, name: str) -> Sequence[type[Toolset]]:
    """Return the toolsets of a plugin that no host knows."""
    offered: Sequence[type[Toolset]] = plugin.forge_toolsets()
    return offered


def _no_session() -> SessionRequests:
    from forge_cli.core.requests import NoSession

    return NoSession()


@dataclass(frozen=True, kw_only=True, eq=False)
class ToolsetEnv:
    """The facts that a toolset may know of the worker it serves."""

    worker: str
    worker_dir: Path
    workspace: Path
    home: Path
    open_sandbox: Callable[[], SandboxView]
    """Gives ``sandbox``; its modules are loaded at the first use."""
    open_processes: Callable[[], Processes]
    """Gives ``processes``; its modules are loaded at the first use."""
    notify: Notify
    policy: Any = None
    """The user's policy for this toolset in every worker, read by its ``Policy``; None where nothing is said."""
    register: Callable[[object, str], Sequence[type[Toolset]]] = _without_registering
    """Registers a module beside the worker like any plugin, under a name, and gives the toolsets that it offers."""
    parent: Any = None
    """The same toolset of the nearest parent worker that has it; what it blocks stays blocked."""
    open_session: Callable[[], SessionRequests] = _no_session
    """Gives ``session``."""
    toolset: str = ""
    """The name of the toolset that has this."""
    check_code: Callable[[Any], None] | None = None
    """Refuses code beside the worker, as it was read, that is not what the worker's lock says; None without a lock."""

    @property
    def sandbox(self) -> SandboxView:
        """Files, with no path declared: what asks is refused here. A call has ``context.sandbox``."""
        return self.open_sandbox()

    @property
    def processes(self) -> Processes:
        """The child processes of the worker."""
        return self.open_processes()

    @property
    def session(self) -> SessionRequests:
        """For what a server of the toolset asks of the model, or of the person."""
        return self.open_session()

    @property
    def data(self) -> Path:
        """A folder of the toolset's own, which only the user can read; it is made when it is first asked for."""
        folder = self.home / "data" / re.sub(r"[^\w.-]|^\.", "_", self.toolset or "unnamed")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


class ToolsetPlaces(Struct, frozen=True):
    """The places where a toolset is going to work."""

    worker_dir: Path
    workspace: Path
    home: Path
    """forge's own."""


ConfigT = TypeVar("ConfigT", bound=ToolsetConfig, default=Any)


class Toolset(Generic[ConfigT]):
    """Tools that share settings, a connection or state; a subclass marks its tools with ``@tool``.

    One instance serves one session; ``async with`` owns its connections and processes (enter them into ``self.stack``).
    ``class Notes(Toolset[NotesConfig])`` has the section of the worker file as ``self.config``, read by that class.
    """

    name: ClassVar[str]
    """The name of the toolset in a worker file, and of its entry point."""
    Config: ClassVar[type[ToolsetConfig]] = ToolsetConfig
    """The class that reads its section; ``Toolset[NotesConfig]`` sets it."""
    Policy: ClassVar[type[PolicyConfig] | None] = None
    """The class of what the user may say under ``policy.NAME`` in config.yaml; it arrives as ``env.policy``."""
    dynamic: ClassVar[bool] = False
    """True where the tools are known only from outside and may change between turns."""
    replaces: ClassVar[bool] = False
    """True where its tools may take the place of another toolset's tool of the same name, with a warning."""
    repeatable: ClassVar[bool] = False
    """True where the worker file may give a list of sections, each opened by itself."""
    picks: ClassVar[bool] = False
    """True where the toolset reads ``tools:`` itself, because the names there are not those of tools."""
    needs_zone: ClassVar[bool] = False
    """True where its tools are of no use without a zone: where none can be, the worker does not start."""
    thread: ClassVar[Literal["pool", "own"]] = "pool"
    """``own``: its tools that are not async run one after the other in one thread, for libraries bound to a thread."""
    imports: ClassVar[bool] = False
    """True where its section names code to import, which is not forge's even if the toolset is."""

    own_sandbox: SandboxView | None = None
    """The one that a program made it with; the worker's, too."""
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
        """A program gives settings as in the worker file, or none; ``env`` comes when the toolset is opened."""
        read: Any = config
        if config is None or isinstance(config, Mapping):
            read = parse_config(self.Config, dict(config or {}), at=("toolsets", self.name))
        self.config = read
        if env is not None:
            self.env = env if env.toolset == self._title else replace(env, toolset=self._title)

    @property
    def _title(self) -> str:
        """Its name; one in a module beside the worker may have none."""
        return getattr(self, "name", type(self).__name__)

    def for_session(self, env: ToolsetEnv) -> Self:
        """A copy of what a program made, for one session."""
        mine = copy(self)
        for name in [
            name
            for name in vars(mine)
            if isinstance(getattr(type(mine), name, None), cached_property)
        ]:
            del vars(mine)[name]
        mine.env = replace(env, toolset=self._title)
        return mine

    @cached_property
    def stack(self) -> AsyncExitStack:
        """Closes what is entered into it when the session ends."""
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
        """Asked before every turn; by default the methods marked with ``@tool``."""
        return self._marked

    @cached_property
    def _marked(self) -> list[Tool]:
        methods = [getattr(self, name) for name in _tool_methods(type(self))]
        where = self.in_thread if self.thread == "own" else None
        return [
            Tool.from_function(method, in_thread=where, **dict(self._own(method)))
            for method in methods
        ]

    @cached_property
    def _thread(self) -> OwnThread:
        from forge_cli.schema.own_thread import OwnThread

        thread = OwnThread(f"toolset {self._title}")
        self.stack.callback(thread.stop)
        return thread

    async def in_thread(self, function: Callable[..., T], /, *args: Any, **more: Any) -> T:
        """Call a function where the tools run that are not async: in the toolset's own thread where it has one."""
        if self.thread == "own":
            return await self._thread.run(function, *args, **more)
        from forge_cli.core.bounds import run_in_thread

        return await run_in_thread(function, *args, **more)

    def _own(self, method: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
        """The methods that ``@tool`` gave by name, as methods; a tool is not one that is meant."""
        for key in BY_NAME:
            name = getattr(method, OPTIONS).get(key)
            if not isinstance(name, str):
                continue
            named = getattr(self, name, None)
            if callable(named) and not hasattr(named, OPTIONS):
                yield key, named
            elif key != "needs_approval" or approval_named(name) is None:
                title = f"{method.__name__}: {key} names the method '{name}'"
                raise SchemaError(f"{title}, which {type(self).__name__} does not have")

    @classmethod
    def zones(cls, home: Path) -> Sequence[Zone]:
        """Zones that the toolset brings along for the file tools; ``home`` is forge's own."""
        return ()

    @classmethod
    def zones_for(cls, config: Any, places: ToolsetPlaces) -> Sequence[Zone]:
        """The same where the zones depend on the toolset's section, read by ``Config``, or on where it works."""
        return cls.zones(places.home)

    @classmethod
    def own_files(cls, config: Any, folder: Path) -> Iterable[Path]:
        """Files that decide what the toolset does, existing or not: writing one always asks; ``*`` is any name.

        ``config`` is the toolset's section, read by ``Config``; ``folder`` is that of the worker file.
        """
        return ()

    @classmethod
    def machine_needs(cls, config: Any, home: Path) -> Mapping[str, str]:
        """The needs of the toolset on this machine besides the worker's files: by name, each with its version.

        Where items of a batch run on another machine, that must have the same. ``config`` is as for ``own_files``.
        """
        return {}

    @classmethod
    def parts_for(cls, config: Any, places: ToolsetPlaces) -> Iterable[LockEntry]:
        """The parts that it will use besides its own code, for a lock: found without starting or importing any."""
        return ()

    async def parts(self) -> Iterable[LockEntry]:
        """The parts that a lock names of it besides its tools, once it is open."""
        return ()

    async def prompts(self) -> Sequence[PromptSpec]:
        """Messages that a person can send by a slash command."""
        return ()

    async def get_prompt(self, name: str, args: Mapping[str, str]) -> Any:
        """The message of one of its ``prompts``, of any kind that a tool returns; a ToolError says what is wrong."""
        raise ToolError(f"there is no prompt '{name}'")

    async def complete_prompt(self, name: str, argument: str, text: str) -> Sequence[str]:
        """Values for an argument of a prompt that go on from what was typed."""
        return ()

    async def resources(self) -> Sequence[ResourceSpec]:
        """Data that the clients of a served worker can read, without a call."""
        return ()

    async def read_resource(self, uri: str, args: Mapping[str, str]) -> Any:
        """The content of one of its ``resources``, of any kind that a tool returns; ``args`` fill its template."""
        raise ToolError(f"there is no resource '{uri}'")

    async def handle_command(self, args: Sequence[str]) -> Sequence[str]:
        """Do what a person says with a command of the toolset's name, such as ``/mcp``; the result, in lines."""
        raise ToolError(f"the toolset {self._title} has no command")

    def rule_kept(self, rule: GrantRule) -> None:
        """Use a rule of this toolset from now on: the person has just kept it, or its refusal, in their config.

        ``rule.says`` is the value that ``rule.at``, a place in the toolset's section of ``policy``, has there.
        """

    def instructions(self) -> str | None:
        """A paragraph for the system prompt, where the tools need one."""
        return None


async def settled(given: Any) -> Any:
    """The value of what a function of a toolset gives, async or not."""
    return await given if isawaitable(given) else given


async def tools_of(toolset: Toolset) -> list[Tool]:
    """The list that ``tools()`` gives, async or not; a SchemaError where it is not a list of tools."""
    found = await settled(toolset.tools())
    tools = list(found) if isinstance(found, Iterable) else [found]
    if wrong := [tool for tool in tools if not isinstance(tool, Tool)]:
        raise SchemaError(
            f"tools() of '{type(toolset).__name__}' gave {wrong[0]!r}, which is not a Tool"
        )
    return tools


def is_toolset(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, Toolset)


def _tool_methods(cls: type[Toolset]) -> list[str]:
    """The names of the marked methods, in the order in which they are written, base classes first.

    A subclass that overrides one without a mark, or by None, does not have it.
    """
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        names.update({name: None for name, value in vars(base).items() if hasattr(value, OPTIONS)})
    return [name for name in names if hasattr(getattr(cls, name), OPTIONS)]
