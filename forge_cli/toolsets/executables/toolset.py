"""The toolset ``executables``: the programs in ``~/.forge/tools`` as tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, cast

from anyio import to_thread
from pydantic import Field

from forge_cli.core.approval import CommandRun, Effect
from forge_cli.core.calls import OutcomeStatus
from forge_cli.core.context import ToolContext
from forge_cli.core.errors import ForgeError, ToolError
from forge_cli.core.hookspecs import Renderer, hookimpl
from forge_cli.core.locking import LockEntry
from forge_cli.core.processes import Finished
from forge_cli.core.results import Text
from forge_cli.core.source import Source
from forge_cli.core.text import as_spelled, counted, did_you_mean, visible
from forge_cli.core.tool import LONGEST, Args, Preview
from forge_cli.core.wire import JsonObject
from forge_cli.core.zones import Zone, ZoneMode
from forge_cli.sandbox.processes import outcome
from forge_cli.schema.config import parse_config
from forge_cli.schema.json.input_schema import InputSchema
from forge_cli.schema.tool import Tool
from forge_cli.schema.toolset import Toolset, ToolsetConfig, ToolsetPlaces
from forge_cli.toolsets.executables.feedback import FeedbackStore, ReadFeedback
from forge_cli.toolsets.executables.manifest import TIMEOUT, Arguments, Parameter
from forge_cli.toolsets.executables.registry import (
    CREATE,
    LANGUAGES,
    RUN,
    Program,
    Registry,
    default_language,
)
from forge_cli.toolsets.executables.run import KIND, ProgramRun, Runner
from forge_cli.toolsets.executables.scaffold import Scaffold, check_free, next_steps, scaffold
from forge_cli.toolsets.executables.stats import Stats
from forge_cli.toolsets.executables.toolchain import language_of
from forge_cli.toolsets.executables.versions import Versions

INSTRUCTIONS = (
    "When the same work with several steps comes up again and again, offer to make a tool for it: "
    f"ask first, then call {CREATE}, whose result describes the next steps. You can call the tool "
    "from the next turn on, and in later sessions."
)
_PARAMETER: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "Becomes --name=value on the command line"},
        "type": {
            "type": "string",
            "enum": ["string", "number", "integer", "boolean", "path"],
            "default": "string",
        },
        "access": {
            "type": "string",
            "enum": ["read", "write", "delete"],
            "description": "For a path: what the program does with the file",
        },
        "required": {"type": "boolean", "default": False},
        "description": {"type": "string"},
        "enum": {
            "type": "array",
            "items": {},
            "minItems": 1,
            "description": "The only values that are accepted",
        },
        "default": {"description": "Passed if the call has no value; not for a required parameter"},
    },
    "required": ["name"],
    "additionalProperties": False,
}
_CREATE_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "description": "a-z, 0-9, '_' and '-', starting with a letter",
        },
        "description": {
            "type": "string",
            "minLength": 1,
            "description": "What the tool is for, in one sentence",
        },
        "language": {
            "type": "string",
            "enum": list(LANGUAGES),
            "description": "Default: Go if it is installed, else Python",
        },
        "parameters": {
            "type": "array",
            "items": _PARAMETER,
            "description": "The parameters of a call",
        },
    },
    "required": ["name", "description"],
}
_RUN_INPUT: JsonObject = {
    "type": "object",
    "properties": {
        "tool_name": {"type": "string", "description": "The name of the tool's folder"},
        "arguments": {"type": "object", "description": "Values by parameter name"},
        "timeout": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": 3600,
            "description": f"Seconds; default: the timeout in its tool.yaml, or {TIMEOUT:g}",
        },
    },
    "required": ["tool_name"],
}


class ToolLeftOut(str):
    """A warning about folders that are not valid tools."""


class ExecutablesConfig(ToolsetConfig):
    """Settings of the toolset ``executables``."""

    env: list[str] = Field(default=[])
    """Environment variables that programs get in addition to the basic ones."""
    calls: list[str] = Field(default=[])
    """Tools of the worker that programs may call."""


@dataclass(kw_only=True)
class ExecutableTool(Tool):
    """A tool whose arguments become command line arguments."""

    version: str = ""
    """The version, for people only; no decision depends on it."""
    feedback: str = ""
    """Feedback of people, for the model of a worker that makes tools."""

    @cached_property
    def schema(self) -> InputSchema:
        return Arguments(cast(JsonObject, self.input_schema))


class ExecutablesToolset(Toolset):
    """The programs in ``~/.forge/tools`` as tools."""

    name = "executables"
    Config = ExecutablesConfig
    needs_zone = True
    dynamic = True
    replaces = True

    @classmethod
    def machine_needs(cls, config: Any, home: Path) -> Mapping[str, str]:
        wanted = config.tools
        programs = Registry(home / "tools").scan()
        found: dict[str, str] = {}
        for each in programs:
            if wanted is None or each.name in wanted:
                version = f"{each.manifest.version} ({each.digest[:8]})"
                found[f"the executable '{each.name}'"] = version
        return found

    @classmethod
    def zones(cls, home: Path) -> Sequence[Zone]:
        """Return the zone ``/tools`` for the file tools; every write in it asks."""
        return [Zone("tools", home / "tools", ZoneMode.RW)]

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._registry = Registry(self.env.home / "tools")
        self._known: dict[str, tuple[Program, Tool]] = {}
        self._told_problems: dict[str, str] = {}
        self._ended: list[Finished] | None = None
        self._stats = Stats(self.root)
        self._versions = Versions(self.env.home)
        self._feedback = ReadFeedback(FeedbackStore(self.env.home))
        self._runner = Runner(self.env, self.config.env, self.config.calls, self._stats)
        return self

    @property
    def root(self) -> Path:
        """The folder that contains the tools."""
        return self._registry.root

    @contextmanager
    def observed(self) -> Iterator[list[Finished]]:
        """Yield a list that collects how the programs started in this block end, in order."""
        before, self._ended = self._ended, []
        try:
            yield self._ended
        finally:
            self._ended = before

    @classmethod
    def parts_for(cls, config: Any, places: ToolsetPlaces) -> Iterable[LockEntry]:
        programs = Registry(places.home / "tools").scan()
        entries: list[LockEntry] = []
        for each in programs:
            if config.tools is None or each.name in config.tools:
                place, version = f"~/.forge/tools/{each.name}", each.manifest.version
                entries.append(LockEntry("executables", each.name, place, each.digest, version))
        return entries

    def instructions(self) -> str | None:
        return INSTRUCTIONS if self._makes_tools else None

    @property
    def _makes_tools(self) -> bool:
        wanted = self.config.tools
        return wanted is None or CREATE in wanted

    async def tools(self) -> Sequence[Tool]:
        programs, feedback = await to_thread.run_sync(
            self._scan, abandon_on_cancel=True
        )  # it hashes what has changed
        self._warn_of_invalid()
        self._known = {
            program.name: (program, self._tool(program, feedback.get(program.name, "")))
            for program in programs
        }
        return [self._create, self._proxy, *(tool for _, tool in self._known.values())]

    def _scan(self) -> tuple[list[Program], dict[str, str]]:
        """Return the current programs and their feedback; keep a version of each changed one."""
        programs = self._registry.scan()
        for program in programs:
            known = self._known.get(program.name)
            # The registry returns the same object for an unchanged program.
            if known is None or known[0] is not program:
                self._versions.keep_program(program)
        wanted = [(program.name, program.digest) for program in programs if self._makes_tools]
        return programs, self._feedback.texts(wanted)

    def left_out(self) -> dict[str, tuple[Source, str]]:
        """Return the wanted folders that are not valid tools, with their problems."""
        return {
            name: (Source("executable", str(self.root / name)), why)
            for name, why in self._problems().items()
        }

    def _problems(self) -> dict[str, str]:
        wanted = self.config.tools
        return {
            name: why
            for name, why in self._registry.problems.items()
            if wanted is None or name in wanted
        }

    def _warn_of_invalid(self) -> None:
        """Warn once about invalid tools: the reason for one, the count for several."""
        problems = self._problems()
        news = {name: why for name, why in problems.items() if self._told_problems.get(name) != why}
        self._told_problems = problems
        if len(news) == 1:
            ((name, problem),) = news.items()
            left_out = f"(the tool '{visible(name)}' is left out)"
            warning = f"{visible(problem, keep=chr(10))} {left_out}"
            self.env.notify("warning", ToolLeftOut(warning))
        elif news:
            which = f"{counted(len(news), 'invalid tool')} in {visible(str(self.root))}"
            self.env.notify("warning", ToolLeftOut(f"{which}; to see why, run: forge tools list"))

    def _tool(self, program: Program, feedback: str) -> Tool:
        """Return the tool of a program; the same object if neither program nor feedback changed."""
        known = self._known.get(program.name)
        if (
            known is not None
            and known[0] is program
            and getattr(known[1], "feedback", "") == feedback
        ):
            return known[1]
        return ExecutableTool(
            name=program.name,
            description=program.manifest.text(),
            input_schema=program.manifest.input_schema(),
            execute=partial(self._call, program),
            timeout=LONGEST,  # the runner applies the timeout of the manifest
            preview=partial(self._preview, program),
            needs_approval=program.manifest.needs_approval,
            manual=program.manifest.callers,
            digest=program.digest,
            version=program.manifest.version,
            feedback=feedback,
            source=Source("executable", str(program.folder)),
        )

    async def _call(self, program: Program, args: Args, context: ToolContext) -> Any:
        return self._result(await self._runner.run(await self._current(program), args, context))

    def _result(self, run: ProgramRun) -> Any:
        if self._ended is not None:
            self._ended.append(run.done)
        return run.result()

    async def _preview(self, program: Program, args: Args, context: ToolContext) -> Preview:
        """Show the program and its arguments; refuse a call that cannot work before asking."""
        argv = map(
            visible,
            self._runner.arguments(
                await self._current(program), args, context.sandbox, preview=True
            ),
        )
        version = ", ".join(
            filter(None, [f"version {program.manifest.version}", language_of(program).note])
        )
        packages = ""
        if program.script:
            packages = visible(", ".join(program.script.dependencies))
        needs = [f"with the packages {packages}"] if packages else []
        runs = CommandRun(str(self.env.workspace), self.env.processes.confined)
        return Preview(
            Text("\n".join([f"{program.entrypoint} ({version})", *needs, *argv])), runs=runs
        )

    async def _current(self, program: Program) -> Program:
        """Return the program; raise ToolError if it was changed since the turn began."""
        now = await to_thread.run_sync(self._registry.look, program.name)
        if now is None:
            problem = self._registry.problems.get(program.name, "it was deleted")
            raise ToolError(f"{program.name} can no longer be called: {problem}")
        if now.digest != program.digest:
            raise ToolError(
                f"{program.name} changed during this turn; call it again in the next turn"
            )
        return now

    @cached_property
    def _proxy(self) -> Tool:
        return Tool(
            name=RUN,
            description="Call a tool in ~/.forge/tools by its name, with a timeout of your choice.",
            input_schema=_RUN_INPUT,
            execute=self._execute_run,
            timeout=LONGEST,
            preview=self._preview_run,
            stands_for=self._target,
        )

    def _target(self, args: Args) -> tuple[str, JsonObject]:
        """Return the call that the gate judges in place of a call of the proxy tool."""
        wanted = self.config.tools
        offered = [known for known in self._known if wanted is None or known in wanted]
        name = as_spelled(args["tool_name"], offered)
        if name not in offered:
            if problem := self._problems().get(name):
                raise ToolError(f"'{visible(name)}' cannot be called: {problem}")
            raise ToolError(
                f"there is no tool '{visible(name)}' in {self.root}; {did_you_mean(name, offered)}"
            )
        return name, args.get("arguments", {})

    def _target_program(self, args: Args) -> tuple[Program, Args]:
        name, given = self._target(args)
        # The schema of the proxy accepts any arguments.
        program, tool = self._known[name]
        return program, tool.schema.validate(given)

    async def _execute_run(self, args: Args, context: ToolContext) -> Any:
        program, given = self._target_program(args)
        timeout = args.get("timeout")
        return self._result(
            await self._runner.run(await self._current(program), given, context, timeout=timeout)
        )

    async def _preview_run(self, args: Args, context: ToolContext) -> Preview:
        return await self._preview(*self._target_program(args), context)

    @cached_property
    def _create(self) -> Tool:
        return Tool(
            name=CREATE,
            description=(
                "Make a new tool in ~/.forge/tools: a tool.yaml and a source that already works, "
                "for you to edit."
            ),
            input_schema=_CREATE_INPUT,
            execute=self._execute_create,
            preview=self._preview_create,
            needs_approval=True,
            effects=frozenset({Effect.WRITE}),
            on_outcome=self._count_creation,
        )

    def _count_creation(self, args: Args, status: OutcomeStatus) -> None:
        """Count denied and failed creations; ``Scaffold.write`` counts successful ones."""
        if status in ("denied", "blocked"):
            self._stats.not_created("denied")
        elif status in ("error", "timeout", "invalid"):
            self._stats.not_created("failed")

    def _plan(self, args: Args) -> Scaffold:
        try:
            parameters = [
                parse_config(Parameter, part, at=("parameters", index))
                for index, part in enumerate(args.get("parameters", []))
            ]
        except ForgeError as error:
            raise ToolError(str(error)) from None
        language = args.get("language") or default_language()
        planned = scaffold(args["name"], args["description"], language, parameters)
        check_free(self.root, planned.name)
        return planned

    async def _preview_create(self, args: Args, context: ToolContext) -> Preview:
        return Preview(Text(self._plan(args).text(self.root)), once=True)

    async def _execute_create(self, args: Args, context: ToolContext) -> Text:
        planned = self._plan(args)
        planned.write(self.root)
        return Text(next_steps(planned, self.root))


@hookimpl
def forge_toolsets() -> list[type[Toolset]]:
    """Offer the toolset."""
    return [ExecutablesToolset]


@hookimpl
def forge_renderers() -> dict[str, Renderer]:
    """Offer the renderer for results of programs."""
    return {KIND: outcome.render}
